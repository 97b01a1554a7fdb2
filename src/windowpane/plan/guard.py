"""Why a row cannot be evaluated: one expression per projection that is NULL for a good row, else the reason.

A bad row must become an error row and never stop the query, so executors evaluate these before the expressions they
guard. What SQL would not evaluate (a row that WHERE drops, an argument that FILTER leaves out) cannot be at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windowpane.plan.node_fields import InputColumn
from windowpane.sql import error_guard
from windowpane.sql.query import PSEUDO_COLUMNS, AggregateCall, Column, Expr, GroupKey
from windowpane.sql.result_steps import Segment

Types = Mapping[str, str | None]
_RANKS = {"where": 0, "filter": 2}


class Guards(Protocol):
    """How an executor evaluates an expression for a row."""

    def value(self, expr: Expr) -> str:
        """SQL of its value, which is not evaluated where `why` is not NULL."""

    def why(self, expr: Expr) -> str | None:
        """SQL that is NULL where the value can be computed, else the reason; None when it always can."""

    def blamed(self, expr: Expr) -> str | None:
        """Which expression failed, in words."""


@dataclass(frozen=True)
class GuardTexts:
    """Guards written out, for executors that have no other way to catch a failure."""

    types: Types

    def value(self, expr: Expr) -> str:
        return expr.text

    def why(self, expr: Expr) -> str | None:
        return guard_of(expr, self.types)

    def blamed(self, expr: Expr) -> str | None:
        guard = self.why(expr)
        return f"CASE WHEN ({guard}) IS NOT NULL THEN 'cannot compute {in_words(expr.text)}' END" if guard else None


def row_error(columns: Sequence[InputColumn], known: Sequence[Column]) -> Expr | None:
    """The error of the input projection, over the columns of FROM."""
    return _as_expr(projection_error(columns, GuardTexts(types_of(known))))


def projection_error(columns: Sequence[InputColumn], guards: Guards) -> str | None:
    """The first error of a row: nothing counts for a row that WHERE drops, nor an argument that FILTER leaves out."""
    where = next((column.expr for column in columns if column.role == "where"), None)
    found = [
        _guarded(column.under, [guards.why(column.expr)], guards)
        for column in columns
        if column.role not in ("where", "filter")
    ]
    found += [guards.why(column.expr) for column in columns if column.role == "filter"]
    return _guarded(where, found, guards)


def projection_detail(columns: Sequence[InputColumn], guards: Guards) -> str | None:
    """For a row that `projection_error` refuses: which expression cannot be computed."""
    ordered = sorted(columns, key=lambda column: _RANKS.get(column.role, 1))
    return _first(_guarded(column.under, [guards.blamed(column.expr)], guards, said=True) for column in ordered)


def blame_order(columns: Sequence[InputColumn]) -> list[str]:
    """Names of columns in the order of `projection_error`: the first that fails on a row is to blame."""
    names = {column.expr.text: column.name for column in reversed(columns)}
    found = []
    for column in sorted(columns, key=lambda each: _RANKS.get(each.role, 1)):
        own = names.get(column.under.text) if column.under else None
        found += [own, column.name] if own else [column.name]
    return list(dict.fromkeys(found))


def in_words(text: str) -> str:
    """SQL as part of a SQL string literal, without the characters that would end it in either dialect."""
    return text.replace("\\", "/").replace("'", '"')


def branch_error(projection: Iterable[tuple[str, Expr]], where: Expr | None, known: Sequence[Column]) -> Expr | None:
    """The error of one branch of a union, over its stream's columns."""
    return _as_expr(errors_where(where, [expr for _, expr in projection], GuardTexts(types_of(known))))


def result_error(results: Sequence[Segment], keys: Sequence[GroupKey], calls: Sequence[AggregateCall]) -> Expr | None:
    """The error of the result side, over internal names and pseudo-columns."""
    types: dict[str, str | None] = dict(PSEUDO_COLUMNS)
    types |= {key.name: key.expr.type for key in keys} | {call.name: call.type for call in calls}
    guards = GuardTexts(types)
    return _as_expr(_first(errors_where(part.condition, part.exprs, guards) for part in results))


def errors_where(condition: Expr | None, exprs: Sequence[Expr], guards: Guards) -> str | None:
    """The first error of `condition`, or, where it holds, of the expressions."""
    return _guarded(condition, [guards.why(expr) for expr in exprs], guards)


def details(exprs: Iterable[Expr], guards: Guards) -> str | None:
    """The first of the expressions that cannot be computed."""
    return _first(guards.blamed(expr) for expr in exprs)


def guard_of(expr: Expr, types: Types) -> str | None:
    """The guard of one expression; a bare column cannot fail."""
    return None if expr.columns == (expr.text,) else error_guard(expr.text, types)


def types_of(known: Sequence[Column]) -> dict[str, str | None]:
    """Types of columns by name."""
    return {column.name: column.type for column in known}


def _guarded(condition: Expr | None, errors: Iterable[str | None], guards: Guards, *, said: bool = False) -> str | None:
    """The first error of the condition, then `errors` where it holds. `said`: as words instead of a reason."""
    inner = _first(errors)
    if condition is None:
        return inner
    taken = f"CASE WHEN {guards.value(condition)} THEN {inner} END" if inner is not None else None
    return _first([guards.blamed(condition) if said else guards.why(condition), taken])


def _first(guards: Iterable[str | None]) -> str | None:
    found = list(dict.fromkeys(guard for guard in guards if guard is not None))
    return found[0] if len(found) == 1 else f"COALESCE({', '.join(found)})" if found else None


def _as_expr(text: str | None) -> Expr | None:
    return Expr(text, "STRING") if text is not None else None
