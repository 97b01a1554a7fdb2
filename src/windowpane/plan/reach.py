"""Which rows the windows of a range of time need: how far the rows of a query reach beyond the starts of its windows.

A backfill reads by it. The reach is never too small. It may be larger than necessary, since windows that are cut off at
the ends of what is read do not start within the range.
"""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.core.windows.aligned import AlignedSpec
from windowpane.core.windows.base import WindowSpec
from windowpane.core.windows.sliding import Sliding
from windowpane.plan.stages import ChainStage, DedupeStage, JoinStage, StageGraph, WindowStage


@dataclass(frozen=True)
class Reach:
    """Rows from `before_us` before a range to `after_us` after it. `unbounded`: why all rows are needed instead."""

    before_us: int = 0
    after_us: int = 0
    unbounded: tuple[str, ...] = ()

    def __add__(self, other: Reach) -> Reach:
        whys = dict.fromkeys([*self.unbounded, *other.unbounded])
        return Reach(self.before_us + other.before_us, self.after_us + other.after_us, tuple(whys))

    def around(self, asked: TimeRange) -> TimeRange:
        """The event times of the rows that windows which start in `asked` need."""
        if self.unbounded or asked.from_us is None or asked.to_us is None:
            return ALWAYS
        return TimeRange(asked.from_us - self.before_us, asked.to_us + self.after_us)


def reach_of(stages: StageGraph) -> Reach:
    """The reach of a whole query: each window, join and chain adds its own."""
    found = Reach()
    for stage in stages.stages:
        match stage:
            case WindowStage():
                found += _of_window(stage, is_last=stage is stages.window)
            case JoinStage(interval_us=(low, high)):
                reach = max(abs(low), abs(high))
                found += Reach(reach, reach + 1)
            case DedupeStage():
                found += Reach(unbounded=("dedupe: which copy of a row counts depends on the copies before it",))
            case ChainStage() if stage.rows.projection.times:
                found += Reach(unbounded=("a query over results computes the time of its rows (ON)",))
            case _:
                pass
    return found


def _of_window(stage: WindowStage, *, is_last: bool) -> Reach:
    if stage.window is None:
        return Reach()
    spec = stage.window.spec
    match spec:
        case AlignedSpec():
            longest_us = spec.longest_us()
            return Reach(0 if is_last else longest_us, longest_us)
        case Sliding():
            return Reach(spec.lookback_us, (spec.lookahead_us or 0) + 1)
    return Reach(unbounded=(_why(spec),))


def _why(spec: WindowSpec) -> str:
    if spec.kind == "session":
        return "session windows: a session may have begun any time before"
    return f"{spec.kind} windows: where one begins depends on all rows before it"
