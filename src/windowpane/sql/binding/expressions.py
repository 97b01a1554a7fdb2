"""Scalar expressions over a row: names resolved in place, everything that a row's expression must not hold refused."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from windowpane.sql.binding.aggregates import aggregate_name, is_over_call, refuse_foreign_aggregate
from windowpane.sql.binding.inference import infer
from windowpane.sql.binding.scope import Resolved, Scope, mark_variables, name_node, written_out
from windowpane.sql.functions import GENERATORS, NONDETERMINISTIC, RANKING, UNIT_FUNCTIONS, UNITS
from windowpane.sql.query import PSEUDO_COLUMNS, Expr
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.generators import IN_FROM
from windowpane.sql.syntax.refusals import refuse_types
from windowpane.sql.syntax.source import PLACEHOLDER, SourceText
from windowpane.sql.syntax.window_functions import FLINK_AUXILIARY, signature, window_name


def function_name(node: exp.Expr) -> str | None:
    """The lower-case name of a call, None for anything else."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    if isinstance(node, (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.SessionUser)):
        return node.sql_name().lower()
    return None


def check_functions(source: SourceText, node: exp.Expr) -> None:
    """Refuse syntax and functions that no expression of a streaming query may hold."""
    for part in node.walk():
        name = function_name(part)
        if isinstance(part, exp.Column) and part.name.startswith(PLACEHOLDER):
            hint = "a subquery may stand in FROM, or in WHERE as a condition by itself: k IN (SELECT id FROM users)"
            raise source.error("UNSUPPORTED_SUBQUERY", "a subquery is not allowed here", hint, at=part)
        if name is None:
            if isinstance(part, exp.Star) and not _is_count_star(part):
                raise source.error("UNSUPPORTED_STAR", "`*` is not allowed here", "list the columns", at=part)
            continue
        if window_name(part) or name in FLINK_AUXILIARY:
            _refuse_window_function(source, part, name)
        if name in NONDETERMINISTIC and not (name == "unix_timestamp" and part.expressions):
            message = f"`{name}` is non-deterministic"
            hint = "a replayed batch must produce the same rows; use a column of the stream instead"
            raise source.error("NONDETERMINISTIC", message, hint, at=part)
        if name in GENERATORS:
            message = f"`{name}` returns several rows, so it is not allowed inside an expression or in this clause"
            raise source.error("UNSUPPORTED_GENERATOR", message, IN_FROM, at=part)
        if name in RANKING and not is_over_call(part):
            hint = f"write {name}(…) OVER (ORDER BY …)"
            raise source.error("OVER_ORDER", f"`{name}` is a window function and needs OVER", hint, at=part)
        refuse_foreign_aggregate(source, part, name)
    refuse_types(source, node)


def refuse_over(source: SourceText, node: exp.Expr, place: str) -> None:
    """Refuse window functions where the rows of the window are not known yet."""
    for part in node.find_all(exp.Window):
        message = f"a window function is not allowed in {place}"
        raise source.error("OVER_PLACE", message, "use QUALIFY, or WHERE around a subquery", at=part)


def _is_count_star(star: exp.Expr) -> bool:
    return function_name(star.parent) == "count" if star.parent is not None else False


def _refuse_window_function(source: SourceText, node: exp.Expr, name: str) -> None:
    if name in FLINK_AUXILIARY:
        hint = f"write {FLINK_AUXILIARY[name]}"
        raise source.error("FLINK_AUXILIARY", f"`{name}` is not supported", hint, at=node)
    hint = f"write GROUP BY {signature(name)} as a separate item, and select window_start, window_end"
    raise source.error("WINDOW_OUTSIDE_GROUP_BY", f"`{name}` is only allowed in GROUP BY", hint, at=node)


@dataclass(frozen=True)
class RowExpressions:
    """Binds expressions that are evaluated for each row of the relation: WHERE, keys, aggregate inputs, conditions."""

    source: SourceText
    scope: Scope
    types: dict[str, str | None]

    def bind(self, node: exp.Expr, place: str) -> Expr:
        """The expression over bare column names. `place` is what the user calls where it stands."""
        span = self.source.span(node)
        self.check(node, place)
        resolved = self.resolve(node, place)
        return self.finish(resolved, span_node=None, span=span)

    def check(self, node: exp.Expr, place: str) -> None:
        check_functions(self.source, node)
        refuse_over(self.source, node, place)
        for part in node.walk():
            if aggregate_name(part):
                code = {"WHERE": "AGGREGATE_IN_WHERE", "GROUP BY": "AGGREGATE_IN_GROUP_BY"}.get(place)
                hint = "use HAVING for conditions on aggregates" if place == "WHERE" else "aggregate in SELECT instead"
                message = f"an aggregate is not allowed in {place}"
                raise self.source.error(code or "MISPLACED_AGGREGATE", message, hint, at=part)
        refuse_modifiers(self.source, node)

    def condition(self, node: exp.Expr, place: str) -> Expr:
        """The same for what must be true or false."""
        bound = self.bind(node, place)
        if bound.type not in (None, "BOOLEAN"):
            message = f"{place} needs a condition, `{bound.text}` is of type {bound.type}"
            raise self.source.error("NOT_BOOLEAN", message, "compare it with something", at=bound.span)
        return bound

    def resolve(self, node: exp.Expr, place: str) -> exp.Expr:
        """Columns by their names in the relation, in place."""

        def step(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column):
                return self.column(part, place)
            return part

        mark_variables(node)
        return node.transform(step, copy=False)

    def column(self, part: exp.Column, place: str) -> exp.Expr:
        first = part.parts[0].name.lower()
        if part.meta.get("bound") or part.meta.get("variable"):
            return part
        if is_unit(part):
            return exp.Var(this=part.name.upper())
        if len(part.parts) == 1 and first in PSEUDO_COLUMNS and not self.known(first):
            message = f"`{first}` is known only once the window is complete: it is not allowed in {place}"
            hint = "the window itself is a group already; select it, or use it in HAVING and ORDER BY"
            raise self.source.error("PSEUDO_COLUMN_PLACE", message, hint, at=part)
        return self.reference(self.scope.resolve(part), part)

    def reference(self, found: Resolved, like: exp.Expr) -> exp.Expr:
        """What a resolved name stands for: a column of the relation, or the expression of a merged subquery."""
        column = self._own_column(found, like)
        for field in found.path:
            column = exp.Dot(this=column, expression=exp.Identifier(this=field.name, quoted=field.quoted))
        return column

    def _own_column(self, found: Resolved, like: exp.Expr) -> exp.Expr:
        trees = found.source.trees
        if trees is not None:
            return written_out(trees[found.own_name.lower()], found.own_name, like)
        self.types.setdefault(found.column.name, found.column.type or None)
        if found.source.open:
            found.source.used[found.column.name] = found.own_name
        column = name_node(found.column.name, like=like)
        column.meta.update(bound=True, own=found.own_name, side=found.source.alias)
        return column

    def known(self, name: str) -> bool:
        return any(name in source.names for source in self.scope.sources)

    def finish(self, node: exp.Expr, span_node: exp.Expr | None = None, span: object = None) -> Expr:
        """An Expr of a resolved tree."""
        columns = dict.fromkeys(column.name for column in node.find_all(exp.Column) if column.meta.get("bound"))
        return Expr(render(node), infer(node, self.types), tuple(columns), span)  # type: ignore[arg-type]


def is_unit(part: exp.Column) -> bool:
    """Whether a name is the unit of timestampadd(HOUR, …) and not a column."""
    parent = part.parent
    if not isinstance(parent, exp.Anonymous) or function_name(parent) not in UNIT_FUNCTIONS or part.table:
        return False
    return len(parent.expressions) == 3 and parent.expressions[0] is part and part.name.upper() in UNITS


def refuse_modifiers(source: SourceText, node: exp.Expr) -> None:
    """DISTINCT, FILTER, WITHIN GROUP and IGNORE NULLS belong to aggregates only; aliases to struct(…) only."""
    for part in node.find_all(exp.Distinct, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Alias):
        if isinstance(part, exp.Alias):
            if function_name(part.parent) != "struct" if part.parent is not None else True:
                raise source.error(
                    "UNSUPPORTED_SYNTAX", f"an alias is not allowed here: `{part.alias}`", "leave it out", at=part
                )
            continue
        words = {"Distinct": "DISTINCT", "Filter": "FILTER", "WithinGroup": "WITHIN GROUP"}
        word = words.get(type(part).__name__, "IGNORE NULLS")
        hint = "a registered UDF is a plain function; aggregates are those of this engine"
        raise source.error(
            "NOT_AN_AGGREGATE", f"{word} belongs to an aggregate", hint, at=part if source.span(part) else node
        )
