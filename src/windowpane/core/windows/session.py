"""Sessions over columns: rows, or sessions, of one group that overlap belong together.

A session is [first, last+gap). Two merge when they overlap; one that starts exactly `gap` after the last is a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windowpane.core.groups import Groups, stable_order
from windowpane.core.windows.base import Part, WindowSpec
from windowpane.time import format_duration

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Session(WindowSpec):
    """[first, last+gap) per group; a row exactly `gap` after the last starts a new one."""

    gap_us: int

    kind = "session"
    parts = (Part("GAP", "gap_us", "30 SECONDS", label="gap"),)
    ordered = False
    per_group = True
    ends_by_time = True
    partitioned = False
    folding = "accumulators"

    def closed_for(self, last: Int64s, closed_us: int) -> Bools:
        """Which sessions, by their last instant, end at `closed_us` or before."""
        return last + self.gap_us <= closed_us

    def words(self) -> str:
        return f"session, ends after {format_duration(self.gap_us)} without a row"

    def emitted(self) -> str | None:
        return None

    def slack_us(self) -> int:
        return self.gap_us


@dataclass(frozen=True)
class Segments:
    """Sessions found: `groups.ids[i]` is the session of element i, with its first and last instant."""

    groups: Groups
    first: Int64s
    last: Int64s

    def of_first(self, count: int) -> Segments:
        """The same sessions, of the first elements alone."""
        return Segments(Groups(self.groups.ids[:count], self.groups.count), self.first, self.last)


def merged_sessions(groups: Groups, start: Int64s, last: Int64s, gap_us: int) -> Segments:
    """Merge the sessions [start, last+gap) of each group into disjoint ones, numbered by group, then time."""
    if not len(start):
        return Segments(Groups(np.zeros(0, np.int64), 0), start, last)
    order = _by_group_and_start(groups, start)
    owner, begin, end = groups.ids[order], start[order], last[order]
    reach = _running_reach(owner, end)
    fresh = np.ones(len(order), bool)
    fresh[1:] = (owner[1:] != owner[:-1]) | (begin[1:] - reach[:-1] >= gap_us)
    numbers = np.cumsum(fresh) - 1
    heads = np.flatnonzero(fresh)
    tails = np.append(heads[1:], len(order)) - 1
    ids = np.empty(len(order), np.int64)
    ids[order] = numbers
    return Segments(Groups(ids, len(heads)), begin[heads], reach[tails])


def _by_group_and_start(groups: Groups, start: Int64s) -> Int64s:
    order = groups.order
    ordered, owner = start[order], groups.ids[order]
    in_order = (ordered[1:] >= ordered[:-1]) | (owner[1:] != owner[:-1])
    if in_order.all():
        return order
    elapsed = start - start.min()
    by_start = stable_order(elapsed, int(elapsed.max()) + 1)
    return by_start[stable_order(groups.ids[by_start], groups.count)]


def _running_reach(owner: Int64s, end: Int64s) -> Int64s:
    """The largest `end` so far within each owner (owners are contiguous)."""
    if ((end[1:] >= end[:-1]) | (owner[1:] != owner[:-1])).all():
        return end
    values, ranks = np.unique(end, return_inverse=True)
    reach: Int64s = values[np.maximum.accumulate(owner * len(values) + ranks) % len(values)]
    return reach
