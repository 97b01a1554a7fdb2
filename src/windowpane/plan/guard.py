"""Why a row cannot be evaluated: one expression per projection that is NULL for a good row, else the reason.

A bad row must become an error row and never stop the query, so executors evaluate these before the expressions they
guard. What SQL would not evaluate (a row that WHERE drops, an argument that FILTER leaves out) cannot be at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from windowpane.plan.parts import InputColumn
from windowpane.sql import error_guard
from windowpane.sql.query import PSEUDO_COLUMNS, AggregateCall, Column, Expr, GroupKey

Types = Mapping[str, str | None]


def row_error(columns: Sequence[InputColumn], known: Sequence[Column]) -> Expr | None:
    """The error of the input projection, over the columns of FROM."""
    types = _types(known)
    where = next((column.expr for column in columns if column.role == "where"), None)
    filters = {column.name.removesuffix("_f"): column.expr for column in columns if column.role == "filter"}
    guards = [
        _guarded(filters.get(column.name.rpartition("_")[0]), [guard_of(column.expr, types)], types)
        if column.role == "argument"
        else guard_of(column.expr, types)
        for column in columns
        if column.role not in ("where", "filter")
    ]
    guards += [guard_of(condition, types) for condition in filters.values()]
    return _as_expr(_guarded(where, guards, types))


def row_error_detail(columns: Sequence[InputColumn], known: Sequence[Column]) -> str | None:
    """For a row that `row_error` refuses: which expression cannot be computed."""
    types = _types(known)
    filters = {column.name.removesuffix("_f"): column.expr for column in columns if column.role == "filter"}
    conditions = [
        filters.get(column.name.rpartition("_")[0]) if column.role == "argument" else None for column in columns
    ]
    ordered = sorted(zip(columns, conditions, strict=True), key=lambda pair: pair[0].role != "where")
    return _first(_guarded(condition, [_blamed(column.expr, types)], types) for column, condition in ordered)


def error_detail(exprs: Iterable[Expr], known: Sequence[Column]) -> str | None:
    """The same for any expressions, in order."""
    types = _types(known)
    return _first(_blamed(expr, types) for expr in exprs)


def _blamed(expr: Expr, types: Types) -> str | None:
    guard = guard_of(expr, types)
    return f"CASE WHEN ({guard}) IS NOT NULL THEN 'cannot compute {in_words(expr.text)}' END" if guard else None


def in_words(text: str) -> str:
    """SQL inside a SQL string; quotes and backslashes would end it in one dialect or the other."""
    return text.replace("\\", "/").replace("'", '"')


def branch_error(projection: Iterable[tuple[str, Expr]], where: Expr | None, known: Sequence[Column]) -> Expr | None:
    """The error of one branch of a union, over its stream's columns."""
    types = _types(known)
    return _as_expr(_guarded(where, [guard_of(expr, types) for _, expr in projection], types))


def result_error(
    results: Iterable[Expr], having: Expr | None, keys: Sequence[GroupKey], calls: Sequence[AggregateCall]
) -> Expr | None:
    """The error of HAVING, ORDER BY and the outputs, over internal names and pseudo-columns."""
    types: dict[str, str | None] = dict(PSEUDO_COLUMNS)
    types |= {key.name: key.expr.type for key in keys} | {call.name: call.type for call in calls}
    return _as_expr(_guarded(having, [guard_of(expr, types) for expr in results], types))


def guard_of(expr: Expr, types: Types) -> str | None:
    """The guard of one expression; a bare column cannot fail."""
    return None if expr.columns == (expr.text,) else error_guard(expr.text, types)


def _types(known: Sequence[Column]) -> dict[str, str | None]:
    return {column.name: column.type for column in known}


def _guarded(condition: Expr | None, guards: Iterable[str | None], types: Types) -> str | None:
    """`guards` where `condition` holds; before them the condition's own."""
    inner = _first(guards)
    if condition is None:
        return inner
    taken = f"CASE WHEN {condition.text} THEN {inner} END" if inner is not None else None
    return _first([guard_of(condition, types), taken])


def _first(guards: Iterable[str | None]) -> str | None:
    found = list(dict.fromkeys(guard for guard in guards if guard is not None))
    return found[0] if len(found) == 1 else f"COALESCE({', '.join(found)})" if found else None


def _as_expr(text: str | None) -> Expr | None:
    return Expr(text, "STRING") if text is not None else None
