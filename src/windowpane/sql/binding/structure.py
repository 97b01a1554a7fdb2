"""Which clauses fit together: refusals that need no names, only what kind of query it is."""

from __future__ import annotations

from windowpane.errors import Span
from windowpane.sql.binding.aggregates import aggregate_name
from windowpane.sql.query import BoundQuery, QueryKind
from windowpane.sql.syntax.statement import SelectStmt

SLIDING = (
    "for the rows before each row use GROUP BY slidingwindow('ss', 10) OVER (PARTITION BY k), for the first row of a "
    "key `dedupe`, for a rank a window: GROUP BY tumblingwindow('ss', 10)"
)
EXAMPLE = "add one: GROUP BY tumblingwindow('ss', 10), or WINDOW TUMBLING (SIZE 10 SECONDS)"
UNBOUNDED = f"{EXAMPLE}; for running totals, a long window with EMIT ON UPDATE"


def check_structure(stmt: SelectStmt, kind: QueryKind, aggregate: Span | None, inner: BoundQuery | None) -> None:
    """Refuse combinations of clauses that have no meaning or would be ignored.

    `inner`: the query whose results the statement reads.
    """
    _check_window(stmt, aggregate)
    _check_watermark(stmt)
    _check_emit(stmt, kind)
    _check_order(stmt, inner)
    _check_over(stmt, inner)
    _check_distinct(stmt, kind, inner)


def _check_window(stmt: SelectStmt, aggregate: Span | None) -> None:
    error = stmt.source.error
    if stmt.window is None:
        if stmt.having is not None:
            raise error("HAVING_WITHOUT_WINDOW", "HAVING needs a window", EXAMPLE, at=stmt.having)
        if stmt.group_by_exprs:
            raise error(
                "NEEDS_WINDOW", "GROUP BY needs a window: a stream never ends", UNBOUNDED, at=stmt.group_by_exprs[0]
            )
        if aggregate is not None:
            raise error("NEEDS_WINDOW", "an aggregate needs a window: a stream never ends", UNBOUNDED, at=aggregate)
    elif stmt.having is not None and not stmt.is_grouped and aggregate is None and not _has_aggregate(stmt):
        hint = "use WHERE to choose rows"
        raise error("HAVING_WITHOUT_GROUPS", "HAVING chooses groups, but nothing is grouped", hint, at=stmt.having)


def _has_aggregate(stmt: SelectStmt) -> bool:
    return stmt.having is not None and any(aggregate_name(part) for part in stmt.having.walk())


def _check_watermark(stmt: SelectStmt) -> None:
    if stmt.watermark is None or stmt.watermark.allowed_lateness_us is None:
        return
    if stmt.window is None or stmt.window.spec.ordered:
        named = "plain queries" if stmt.window is None else f"{stmt.window.spec.kind} windows"
        message = f"{named} do not support ALLOWED LATENESS: rows are released in order of event time"
        hint = "use a larger LAG instead"
        raise stmt.source.error("ALLOWED_LATENESS_NOT_ALLOWED", message, hint, at=stmt.watermark.span)


def _check_emit(stmt: SelectStmt, kind: QueryKind) -> None:
    emit = stmt.emit
    if emit is None:
        return
    error = stmt.source.error
    if stmt.window is None:
        raise error("EMIT_WITHOUT_WINDOW", "EMIT needs a window", EXAMPLE, at=emit.span)
    if emit.mode == "close":
        return
    if stmt.window.spec.ordered:
        hint = "its windows are emitted only once; remove EMIT"
        raise error(
            "EMIT_NOT_ALLOWED", f"{stmt.window.spec.kind} windows only support EMIT ON WINDOW CLOSE", hint, at=emit.span
        )
    if kind == "rows":
        hint = "rows do not change; remove EMIT"
        raise error(
            "EMIT_NOT_ALLOWED", "a query without aggregates only supports EMIT ON WINDOW CLOSE", hint, at=emit.span
        )
    if stmt.order_by or stmt.limit is not None:
        word = "ORDER BY" if stmt.order_by else "LIMIT"
        hint = "an update is one group's row; use EMIT ON WINDOW CLOSE"
        at = stmt.order_span if stmt.order_by else stmt.limit_span
        raise error("ORDER_WITH_UPDATES", f"{word} does not apply to updates", hint, at=at or emit.span)


def _check_over(stmt: SelectStmt, inner: BoundQuery | None) -> None:
    first = stmt.first_over()
    if first is None:
        return
    error, emit = stmt.source.error, inner.emit if inner else stmt.emit
    if stmt.window is None and inner is None:
        message = "a window function needs a window whose rows it looks at: a stream never ends"
        raise error("OVER_WITHOUT_WINDOW", message, SLIDING, at=first)
    if emit is not None and emit.mode != "close":
        message = "a window function looks at all rows of a window, and an update is one group's row"
        raise error("OVER_WITH_UPDATES", message, "use EMIT ON WINDOW CLOSE", at=first)


def _check_distinct(stmt: SelectStmt, kind: QueryKind, inner: BoundQuery | None) -> None:
    if stmt.distinct is None:
        return
    error, emit = stmt.source.error, inner.emit if inner else stmt.emit
    if stmt.window is None and inner is None:
        raise error("SELECT_DISTINCT", "DISTINCT needs a window: a stream never ends", EXAMPLE, at=stmt.distinct)
    if emit is not None and emit.mode != "close" and (kind != "aggregate" or stmt.group_by_exprs or inner):
        message = "DISTINCT compares all rows of a window, and an update is one group's row"
        raise error("SELECT_DISTINCT", message, "use EMIT ON WINDOW CLOSE", at=stmt.distinct)


def _check_order(stmt: SelectStmt, inner: BoundQuery | None) -> None:
    error = stmt.source.error
    if inner is not None and stmt.window is None and inner.emit.mode != "close" and stmt.order_by:
        hint = "an update is one group's row; use EMIT ON WINDOW CLOSE"
        raise error("ORDER_WITH_UPDATES", "ORDER BY does not apply to updates", hint, at=stmt.order_span)
    if stmt.window is None and inner is None:
        if stmt.order_by:
            hint = "rows are already in order of event time; remove ORDER BY"
            raise error("ORDER_WITHOUT_WINDOW", "ORDER BY needs a window", hint, at=stmt.order_span)
        if stmt.limit is not None:
            raise error(
                "LIMIT_WITHOUT_WINDOW", "LIMIT needs a window: a stream never ends", EXAMPLE, at=stmt.limit_span
            )
    elif stmt.limit is not None and not stmt.order_by:
        hint = "write ORDER BY … LIMIT …, so that the kept rows are deterministic"
        raise error("LIMIT_WITHOUT_ORDER", "LIMIT needs ORDER BY", hint, at=stmt.limit_span)
