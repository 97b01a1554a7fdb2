"""Interval joins: the distance in time between partners, as the conditions of ON bound it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from windowpane.plan.columns import quote
from windowpane.plan.context import PlanContext
from windowpane.sql import TimeBounds, all_of, split_conjunction, time_bounds
from windowpane.sql.query import BoundQuery, Expr, StreamJoin, UnionBranch

_UNITS = {"unixtimestamp_s": 1_000_000, "unixtimestamp_ms": 1_000, "unixtimestamp_us": 1}
_FUNCTIONS = {1_000_000: "timestamp_seconds", 1_000: "timestamp_millis", 1: "timestamp_micros"}
"""What makes timestamps of numbers, by unit."""


@dataclass(frozen=True)
class _Time:
    """A column of a side that has the times of its rows."""

    column: str
    """Its name in the query, quoted."""
    unit_us: int | None = None
    """Of times that are numbers."""
    after_us: int = 0
    """By how much it is later than the time that rows have in the join."""
    own: tuple[Expr, str] | None = None
    """The time that rows get in the join, if it is not that of the results, with its event-time type."""
    function: str = ""
    """Applied to the column, it gives the time."""

    @property
    def spelled(self) -> str:
        """As conditions have it."""
        name = self.column.strip("`")
        return f"{self.function}({name})" if self.function else name

    def variants(self) -> list[_Time]:
        """Numbers are also times as timestamps."""
        if self.unit_us is None:
            return [self]
        return [self, replace(self, unit_us=None, function=_FUNCTIONS[self.unit_us])]


def with_interval(context: PlanContext) -> PlanContext:
    """The context with the bounds in time of a join without a window taken out of the conditions of ON.

    PlanError UNBOUNDED_JOIN if the times of both sides are not bounded.
    """
    join = context.bound.relation.stream_join
    if join is None or context.bound.window is not None:
        return context
    sides = _times(context, join)
    pairs = [(left, right) for left, right in product(*sides) if left.unit_us == right.unit_us]
    found = [_bounded(context, join, pair) for pair in pairs]
    whole = next((each for each in found if each.bounds.is_complete), None)
    if whole is None:
        raise _unbounded(context, join, found)
    low_us, high_us = whole.interval_us
    if low_us > high_us:
        raise context.error(
            "EMPTY_INTERVAL", "no two rows can be as far apart in time as ON asks for",
            "exchange the bounds: b.ts BETWEEN a.ts - … AND a.ts + …", span=join.span,
        )  # fmt: skip
    bounded = replace(join, conditions=whole.conditions, interval_us=whole.interval_us)
    timed = zip(context.bound.relation.branches, whole.times, strict=True)
    branches = tuple(replace(branch, time=time.own) for branch, time in timed)
    relation = replace(context.bound.relation, stream_join=bounded, branches=branches)
    return replace(context, bound=replace(context.bound, relation=relation, where=whole.where))


@dataclass(frozen=True)
class _Bounded:
    """What the conditions say of two times."""

    times: tuple[_Time, _Time]
    bounds: TimeBounds
    conditions: tuple[Expr, ...]
    """All others of ON."""
    where: Expr | None

    @property
    def interval_us(self) -> tuple[int, int]:
        """Between the times that rows have in the join."""
        assert self.bounds.low_us is not None
        assert self.bounds.high_us is not None
        shift_us = self.times[0].after_us - self.times[1].after_us
        return self.bounds.low_us + shift_us, self.bounds.high_us + shift_us


def _bounded(context: PlanContext, join: StreamJoin, times: tuple[_Time, _Time]) -> _Bounded:
    """In an inner join, WHERE is as good as ON."""
    left, right = times
    bounds, where = TimeBounds(), context.bound.where
    equal = {(one.text, other.text) for one, other in join.equalities}
    if not (left.function or right.function) and (left.column, right.column) in equal:
        bounds = bounds.within(TimeBounds(0, 0))

    def rest(conditions: Iterable[Expr]) -> list[Expr]:
        nonlocal bounds
        kept = []
        for condition in (part for each in conditions for part in split_conjunction(each)):
            found = time_bounds(condition, left.spelled, right.spelled, left.unit_us)
            bounds = bounds.within(found) if found is not None else bounds
            kept += [condition] if found is None else []
        return kept

    others = rest(join.conditions)
    if not bounds.is_complete and join.kind == "inner" and where is not None:
        where = all_of(rest([where]))
    return _Bounded(times, bounds, tuple(others), where)


def _times(context: PlanContext, join: StreamJoin) -> list[list[_Time]]:
    """The columns of both sides that have the times of their rows, by their names in the query."""
    found = []
    for branch, names in zip(context.bound.relation.branches, (join.left, join.right), strict=True):
        own = _stream_time(context, branch) if branch.query is None else _result_times(context, branch.query)
        found.append([
            variant for time in own
            for name, expr in branch.projection if name in names and expr.text == time.column
            for variant in replace(time, column=quote(name)).variants()
        ])  # fmt: skip
    return found


def _stream_time(context: PlanContext, branch: UnionBranch) -> list[_Time]:
    """The declared event-time column of a stream."""
    stream = context.streams.get(branch.stream.name)
    declared = stream.eventtime if stream else None
    column = context.transform.event_time_field or (declared.column if declared else None)
    return [_Time(quote(column), _UNITS.get(declared.type) if declared else None)] if column else []


def _result_times(context: PlanContext, query: BoundQuery) -> list[_Time]:
    """The columns of results that are times: the bounds of a window, or the times of joined rows."""
    names = {output.name: output.expr.text for output in query.outputs}
    if query.window is not None:
        shifts = {"window_time": 0, "window_end": 1}
        return [_Time(quote(name), None, shifts[text]) for name, text in names.items() if text in shifts]
    join = query.relation.stream_join
    if join is None:
        return []
    inner = with_interval(replace(context, bound=query))
    carried = {key.expr.text: key.name for key in query.carried}
    found = []
    missing = {"left": (1,), "right": (0,), "full": (0, 1)}.get(join.kind, ())
    sides = _times(inner, join)
    branches = inner.bound.relation.branches
    for number, side in enumerate(sides):
        chosen = branches[number].time
        for time in side if number not in missing else ():
            if time.function:
                continue
            if branches[number].query is not None and (chosen is None or time.own != chosen):
                continue  # rows have another time in this join
            shown = [name for name, text in names.items() if text == carried.get(time.column)]
            found += [_own_time(context, query, branches[number], name, time) for name in shown]
    return found


def _own_time(context: PlanContext, query: BoundQuery, branch: UnionBranch, name: str, time: _Time) -> _Time:
    """A time of one side of a join as the time of joined rows. It is not further behind than the join's reach."""
    kind = branch.time[1] if branch.time is not None else None
    stream = context.streams.get(branch.stream.name)
    declared = stream.eventtime.type if stream and stream.eventtime else "timestamp"
    shown = next(output.expr.type for output in query.outputs if output.name == name)
    return _Time(quote(name), time.unit_us, 0, (Expr(quote(name), shown, (name,)), kind or declared))


def _unbounded(context: PlanContext, join: StreamJoin, found: Sequence[_Bounded]) -> Exception:
    example = "AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts + INTERVAL 5 MINUTES"
    if any(branch.query is not None and branch.query.window for branch in context.bound.relation.branches):
        ts = next((each.spelled for pair in found for each in pair.times if each.function), "ts")
        example = f"AND {ts} BETWEEN window_end - INTERVAL 10 SECONDS AND window_end, which the results must have"
    elif found:
        left, right = (_spelled(branch, time) for branch, time in
                       zip(context.bound.relation.branches, found[0].times, strict=True))  # fmt: skip
        unit = found[0].times[0].unit_us
        reach = "INTERVAL 5 MINUTES" if unit is None else str(300_000_000 // unit)
        example = f"AND {right} BETWEEN {left} - {reach} AND {left} + {reach}"
    message = "this join of streams has no bound in time: every row would be kept for ever"
    bounds = next((each.bounds for each in found if each.bounds != TimeBounds()), TimeBounds())
    if bounds != TimeBounds():
        shown = "before" if bounds.low_us is None else "after"
        message = f"this join of streams is bounded on one side only: rows would wait for all partners {shown} them"
    hint = f"bound the distance of both event times: {example}; or join within WINDOW TUMBLING (SIZE 10 SECONDS)"
    if not found and all(branch.query is None for branch in context.bound.relation.branches):
        hint = f'declare the event time of both streams, `eventtime = {{ column = "ts", type = … }}`, and {hint}'
    return context.error("UNBOUNDED_JOIN", message, hint, span=join.span)


def _spelled(branch: UnionBranch, time: _Time) -> str:
    """A time as the query names it."""
    own = next(expr.text for name, expr in branch.projection if quote(name) == time.column)
    return f"{branch.stream.alias}.{own}" if branch.query is None else own
