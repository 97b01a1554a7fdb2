"""What the columnar scan and the harness evaluate for a projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.evaluation.event_times import EventTimes
from windowpane.evaluation.expressions import Computed
from windowpane.evaluation.projection import Projection
from windowpane.plan.guard import blame_order, guard_of, in_words
from windowpane.plan.node_fields import InputColumn
from windowpane.sql import SessionFacts, Translated, translate_expression
from windowpane.sql.query import Expr
from windowpane.sql.signatures import NULL
from windowpane.sql.types import to_arrow

Types = Mapping[str, str | None]


def conditions_of(columns: Sequence[InputColumn]) -> dict[str, tuple[str, ...]]:
    """For each column the conditions under which SQL evaluates it: WHERE, and the FILTER of an aggregate's argument."""
    where = [column.expr.text for column in columns if column.role == "where"]
    found = {}
    for column in columns:
        own = [column.under.text] if column.under else []
        found[column.name] = () if column.role == "where" else (*where, *own)
    return found


def translate_under(
    text: str,
    conditions: Sequence[str],
    types: Types,
    session: SessionFacts | None = None,
) -> Translated:
    """An expression; one that can fail is NULL where its conditions do not hold, since SQL would not evaluate it."""
    found = translate_expression(text, types, session)
    if not found.fails or not conditions:
        return found
    for condition in reversed(conditions):  # AND would evaluate the next one where this one is NULL
        text = f"CASE WHEN {condition} THEN {text} END"
    return translate_expression(text, types, session)


@dataclass(frozen=True)
class Compiler:
    """Makes projections of a plan's expressions over columns of `types`. SqlError where one could differ from Spark's.

    `check` may refuse an expression for more reasons than that.
    """

    types: Types
    session: SessionFacts = field(default_factory=SessionFacts)
    check: Callable[[Expr, Translated], None] = lambda _expr, _found: None

    def projection(
        self, columns: Sequence[InputColumn], times: EventTimes | None = None, *, where: str | None
    ) -> Projection:
        conditions = conditions_of(columns)
        plain = tuple((each.name, _name(each.expr)) for each in columns if _name(each.expr) in self.types)
        constants = {each.name: value for each in columns if (value := _constant(each.expr)) is not None}
        computed = {
            each.name: self.computed(each.expr, conditions[each.name])
            for each in columns
            if _name(each.expr) not in self.types and each.name not in constants
        }
        ordered = tuple((name, computed[name]) for name in blame_order(columns) if name in computed)
        return Projection(times, plain, ordered, where, tuple(constants.items()))

    def computed(self, expr: Expr, conditions: Sequence[str] = ()) -> Computed:
        """One expression, with its guard if it can fail."""
        found = translate_under(expr.text, conditions, self.types, self.session)
        self.check(expr, found)
        guard = guard_of(expr, self.types) if found.fails else None
        why = None if guard is None else translate_expression(guard, self.types, self.session).text
        kind = pa.string() if found.type == NULL else to_arrow(found.type)
        return Computed(found.text, kind, found.fails, why, in_words(expr.text))


def _name(expr: Expr) -> str:
    """The column that an expression is, where it is one."""
    return expr.text.strip("`")


def _constant(expr: Expr) -> pa.Scalar | None:
    """What branches of unions and joins have in place of another branch's columns: NULL, and what names the branch."""
    if expr.text in ("TRUE", "FALSE"):
        return pa.scalar(expr.text == "TRUE")
    if expr.type == "INT" and expr.text.isdecimal():
        return pa.scalar(int(expr.text), pa.int32())
    kind = to_arrow(expr.type) if expr.type is not None else None
    return pa.scalar(None, kind) if kind is not None and expr.text == f"CAST(NULL AS {expr.type})" else None
