"""Interval joins: the distance in time between partners, as the conditions of ON bound it."""

from __future__ import annotations

from dataclasses import replace

from windowpane.plan.columns import quote
from windowpane.plan.context import PlanContext
from windowpane.sql import TimeBounds, split_conjunction, time_bounds
from windowpane.sql.query import Expr, StreamJoin

_UNITS = {"unixtimestamp_s": 1_000_000, "unixtimestamp_ms": 1_000, "unixtimestamp_us": 1}


def with_interval(context: PlanContext) -> PlanContext:
    """The context with the bounds in time of a join without a window taken out of the conditions of ON.

    PlanError UNBOUNDED_JOIN if the times of both sides are not bounded.
    """
    join = context.bound.relation.stream_join
    if join is None or context.bound.window is not None:
        return context
    times = _times(context, join)
    bounds, others = TimeBounds(), list[Expr]()
    for condition in (part for each in join.conditions for part in split_conjunction(each)):
        found = time_bounds(condition, times[0][0], times[1][0], times[0][1]) if times else None
        bounds = bounds.within(found) if found is not None else bounds
        others += [condition] if found is None else []
    if times and (times[0][0], times[1][0]) in {(left.text, right.text) for left, right in join.equalities}:
        bounds = bounds.within(TimeBounds(0, 0))
    if bounds.low_us is None or bounds.high_us is None:
        raise _unbounded(context, join, bounds, times)
    if bounds.low_us > bounds.high_us:
        raise context.error(
            "EMPTY_INTERVAL", "no two rows can be as far apart in time as ON asks for",
            "exchange the bounds: b.ts BETWEEN a.ts - … AND a.ts + …", span=join.span,
        )  # fmt: skip
    bounded = replace(join, conditions=tuple(others), interval_us=(bounds.low_us, bounds.high_us))
    relation = replace(context.bound.relation, stream_join=bounded)
    return replace(context, bound=replace(context.bound, relation=relation))


def _times(context: PlanContext, join: StreamJoin) -> list[tuple[str, int | None]]:
    """The event-time columns of both sides by their names in the query, each with the unit of its numbers.

    Empty if a side does not have the column, or if units differ.
    """
    found = []
    for branch, names in zip(context.bound.relation.branches, (join.left, join.right), strict=True):
        stream = context.streams.get(branch.stream.name)
        declared = stream.eventtime if stream else None
        column = context.transform.event_time_field or (declared.column if declared else None)
        named = [name for name, expr in branch.projection if name in names and column and expr.text == quote(column)]
        if not named:
            return []
        found.append((quote(named[0]), _UNITS.get(declared.type) if declared else None))
    return found if found[0][1] == found[1][1] else []


def _places(context: PlanContext, times: list[tuple[str, int | None]]) -> list[int]:
    """Where the branches have their event-time columns."""
    return [
        next(at for at, (name, _) in enumerate(branch.projection) if quote(name) == column)
        for branch, (column, _) in zip(context.bound.relation.branches, times, strict=True)
    ]


def _unbounded(
    context: PlanContext, join: StreamJoin, bounds: TimeBounds, times: list[tuple[str, int | None]]
) -> Exception:
    example = "AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts + INTERVAL 5 MINUTES"
    if times:
        unit = times[0][1]
        reach = "INTERVAL 5 MINUTES" if unit is None else str(300_000_000 // unit)
        branches = zip(context.bound.relation.branches, _places(context, times), strict=True)
        left, right = (f"{branch.stream.alias}.{branch.projection[at][1].text}" for branch, at in branches)
        example = f"AND {right} BETWEEN {left} - {reach} AND {left} + {reach}"
    message = "this join of streams has no bound in time: every row would be kept for ever"
    if bounds.low_us is not None or bounds.high_us is not None:
        shown = "before" if bounds.low_us is None else "after"
        message = f"this join of streams is bounded on one side only: rows would wait for all partners {shown} them"
    hint = f"bound the distance of both event times: {example}; or join within WINDOW TUMBLING (SIZE 10 SECONDS)"
    return context.error("UNBOUNDED_JOIN", message, hint, span=join.span)
