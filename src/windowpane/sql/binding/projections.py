"""The list of SELECT: each item with its name, `*` written out as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.errors import nearest
from windowpane.sql.binding.result_names import Projection, ResultNames, pseudo_column
from windowpane.sql.binding.scope import Resolved, Source, name_node
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.generators import is_generator
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.window_groups import WINDOW_COLUMNS


@dataclass(frozen=True)
class ProjectionBinder:
    """Resolves what SELECT lists."""

    source: SourceText
    names: ResultNames

    def bind(self, items: Sequence[exp.Expr]) -> list[Projection]:
        """The selected columns, `*` written out."""
        found: list[Projection] = []
        for item in items:
            if is_generator(item):
                found += self._generated(item)
            else:
                found += self._star(item) if item.is_star else [self._projection(item)]
        _refuse_duplicates(self.source, found)
        return found

    def _projection(self, item: exp.Expr) -> Projection:
        span = self.source.span(item)
        inner = item.this if isinstance(item, exp.Alias) else item
        written = _as_written(inner) if self._is_merged() else None
        node = self.names.resolve(inner, "SELECT")
        text = render(node)
        name = item.alias if isinstance(item, exp.Alias) else _own_label(node, written or text)
        return Projection(name, node, text, span)

    def _is_merged(self) -> bool:
        return any(side.trees is not None for side in self.names.rows.scope.sources)

    def _generated(self, item: exp.Expr) -> list[Projection]:
        """The columns of explode and the like, which FROM computes."""
        span = self.source.span(item)
        columns = [column for side in self.names.rows.scope.sources for column in side.selected]
        nodes = [(output, bound_column(column.name, item)) for output, column in columns]
        return [Projection(output, node, render(node), span) for output, node in nodes]

    def _star(self, item: exp.Expr) -> list[Projection]:
        star = item if isinstance(item, exp.Star) else item.this
        owner = item.table if isinstance(item, exp.Column) else ""
        sources = self.names.rows.scope.sources
        sides = [side for side in sources if not owner or side.alias.lower() == owner.lower()]
        if not sides:
            message, hint = f"there is no `{owner}` in FROM", f"write {sources[0].alias}.*"
            raise self.source.error("UNKNOWN_STREAM", message, hint, at=item)
        excluded = {column.name.lower(): column for column in star.args.get("except_") or ()}
        columns = [column for side in sides for column in self._columns_of(side, item)]
        found = [(column.own_name, self.names.rows.reference(column, item)) for column in columns]
        if self.names.window is not None and self.names.window.table is not None and sides[0] is sources[0]:
            found += [(name, pseudo_column(name, item)) for name in WINDOW_COLUMNS]
        for name, node in excluded.items():
            if name not in {output.lower() for output, _ in found}:
                hint = f"columns are: {nearest(name, [output for output, _ in found])}"
                raise self.source.error("UNKNOWN_COLUMN", f"there is no column `{name}`", hint, at=node)
        span = self.source.span(item)
        kept = [(output, node) for output, node in found if output.lower() not in excluded]
        return [Projection(output, node, render(node), span) for output, node in kept]

    def _columns_of(self, side: Source, item: exp.Expr) -> list[Resolved]:
        if side.open:
            message = f"the columns of `{side.alias}` are unknown, so `*` cannot be used"
            raise self.source.error("NEEDS_SCHEMA", message, "list the columns, or declare a schema", at=item)
        shown = [(low, column) for low, column in side.names.items() if not column.hidden]
        return [Resolved(side, column, side.spelled[low], ()) for low, column in shown]


def _as_written(node: exp.Expr) -> str:
    """The text of an expression over the names of a subquery, without qualifiers."""
    shown = node.copy()
    for column in shown.find_all(exp.Column):
        column.set("table", None)
    return render(shown)


def bound_column(name: str, like: exp.Expr | None = None) -> exp.Expr:
    node = name_node(name, like)
    node.meta["bound"] = True
    return node


def _own_label(node: exp.Expr, text: str) -> str:
    """What a result without an alias is called: a column by its name in the schema, else its canonical text."""
    if "label" in node.meta:
        return str(node.meta["label"])
    if isinstance(node, exp.Column):
        return str(node.meta.get("own", node.name))
    return str(node.expression.name) if isinstance(node, exp.Dot) else text


def _refuse_duplicates(source: SourceText, projections: list[Projection]) -> None:
    seen: set[str] = set()
    for projection in projections:
        if projection.name.lower() in seen:
            message = f"two columns of the result are called `{projection.name}`"
            raise source.error("DUPLICATE_OUTPUT", message, "give one another name: … AS name", at=projection.span)
        seen.add(projection.name.lower())
