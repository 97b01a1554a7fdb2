"""Names in SELECT, HAVING and ORDER BY: columns, aliases of selected expressions, and the window's pseudo-columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.errors import Span
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.binding.expressions import RowExpressions, check_functions, refuse_over
from windowpane.sql.binding.scope import mark_variables, name_node
from windowpane.sql.query import PSEUDO_COLUMNS, GroupKey
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import WindowSyntax
from windowpane.sql.syntax.window_groups import WINDOW_COLUMNS

_SPARK_WINDOWS = {"window": "window", "session_window": "session_window"}


@dataclass(frozen=True)
class Projection:
    """A column of the result: its name, its resolved tree and, since that is rewritten later, the tree's text."""

    name: str
    node: exp.Expr
    text: str
    span: Span | None


@dataclass(frozen=True)
class ResultNames:
    """Resolves the names of clauses that are computed from groups, or from rows if there are no groups."""

    source: SourceText
    rows: RowExpressions
    window: WindowSyntax | None

    def resolve(
        self,
        node: exp.Expr,
        place: str,
        aliases: Mapping[str, Projection] | None = None,
        keys: Sequence[GroupKey] = (),
    ) -> exp.Expr:
        """Names resolved in place: pseudo-columns and aliases marked, columns by their names in the relation.

        `aliases`: selected expressions that the clause may name, by lower-case name. `keys`: the group keys, which an
        alias must not contradict.
        """
        check_functions(self.source, node)
        if place == "HAVING":
            refuse_over(self.source, node, place)
        mark_variables(node)
        calls = [part for part in node.walk() if aggregate_name(part)]
        in_calls = {id(column) for call in calls for column in call.find_all(exp.Column)}

        in_over = {id(column) for over in node.find_all(exp.Window) for column in over.find_all(exp.Column)}

        def step(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or part.meta.get("bound"):
                return part
            name = part.parts[0].name.lower()
            in_call = id(part) in in_calls
            if self._of_window(part) and not in_call and not part.meta.get("variable"):
                name = part.name.lower()
                if aliases and name in aliases and not (id(part) in in_over and self.rows.known(name)):
                    return self._alias(part, aliases[name], keys)
                if name in PSEUDO_COLUMNS:
                    return self._pseudo(part, name, place)
            spark_window = self._spark_window(part)
            if spark_window is not None:
                return spark_window
            return self.rows.column(part, "an aggregate" if in_call else place)

        return node.transform(step, copy=False)

    def _of_window(self, part: exp.Column) -> bool:
        """Whether a name may be one of the window's: bare, or qualified by the alias of a table function."""
        if len(part.parts) == 1:
            return True
        is_table = self.window is not None and self.window.table is not None and len(part.parts) == 2
        return is_table and part.name.lower() in WINDOW_COLUMNS and not self.rows.known(part.name.lower())

    def _alias(self, part: exp.Column, projection: Projection, keys: Sequence[GroupKey]) -> exp.Expr:
        node = name_node(projection.name, like=part)
        node.meta.update(bound=True, alias=True)
        named = [key for key in keys if key.expr.text.lower() == part.name.lower()]
        if named and projection.text != named[0].expr.text:
            hint = f"give the selected expression another name than `{part.name}`"
            message = f"`{part.name}` is a group key and the alias of something else"
            raise self.source.error("AMBIGUOUS_COLUMN", message, hint, at=part)
        return node

    def _pseudo(self, part: exp.Column, name: str, place: str) -> exp.Expr:
        known = self.rows.known(name)
        if self.window is None:
            if known:
                return self.rows.column(part, place)
            hint = "add a window: GROUP BY tumblingwindow('ss', 10)"
            raise self.source.error("PSEUDO_COLUMN_WITHOUT_WINDOW", f"`{name}` needs a window", hint, at=part)
        if known:
            owner = next(source.alias for source in self.rows.scope.sources if name in source.names)
            message = f"`{name}` is both the window's and a column of {f'`{owner}`' if owner else 'the subquery'}"
            column = f"{owner}.{name}" if owner else f"t.{name}, if the subquery is called AS t"
            hint = f"the column is {column}; to select the window's, give the column another name in a subquery"
            raise self.source.error("AMBIGUOUS_COLUMN", message, hint, at=part)
        if name == "trigger_time" and not self.window.spec.triggered:
            hint = "only sliding windows have triggers; use window_start or window_end"
            raise self.source.error(
                "PSEUDO_COLUMN_WITHOUT_WINDOW", "`trigger_time` needs a sliding window", hint, at=part
            )
        return pseudo_column(name, part)

    def _spark_window(self, part: exp.Column) -> exp.Expr | None:
        """`window.start` of Spark's spelling is `window_start` here."""
        names = [piece.name.lower() for piece in part.parts]
        if self.window is None or names[0] != self.window.spelling or names[0] not in _SPARK_WINDOWS:
            return None
        if self.rows.known(names[0]):
            return None
        if len(names) == 2 and names[1] in ("start", "end"):
            return self._pseudo(part, f"window_{names[1]}", "SELECT")
        hint = f"select {names[0]}.start and {names[0]}.end, or window_start and window_end"
        raise self.source.error("WINDOW_STRUCT", f"`{self.source.quote(part)}` is not supported", hint, at=part)


def first_aggregate(source: SourceText, projections: Sequence[Projection]) -> Span | None:
    """The place of the first aggregate that is selected."""
    for projection in projections:
        for part in projection.node.walk():
            if aggregate_name(part):
                return source.span(part) or projection.span
    return None


def pseudo_column(name: str, like: exp.Expr) -> exp.Expr:
    """A column of the window, in the place of a node."""
    node = name_node(name, like=like)
    node.meta.update(bound=True, pseudo=True)
    return node
