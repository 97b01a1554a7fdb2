"""Pairs of rows of two sides: which rows meet, in the order of time, without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from windowpane.core.groups import Groups
from windowpane.core.windows.ranges import chunks, expand

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pairs: TypeAlias = tuple[Int64s, Int64s]
"""Positions of left rows, and of right ones."""

CHUNK_PAIRS = 1 << 17
"""About how many pairs are made at once."""


@dataclass(frozen=True)
class Pairing:
    """Rows of both sides that may be partners. Positions of rows are numbers into `is_right` and the ids of `cells`."""

    cells: Groups
    """Partners are in the same cell."""
    is_right: Bools
    comparable: Bools
    """Rows that can have partners."""
    rows: Int64s
    """Positions of all rows, in the order in which they count as earlier and later."""

    def partners(self, ts: Int64s | None = None, interval_us: tuple[int, int] = (0, 0)) -> Iterator[Pairs]:
        """Pairs of positions, about CHUNK_PAIRS at once, in the order of their later row, then of the other one.

        `ts`: the times of all rows, if right time less left time has to be in `interval_us`. `rows` are in their order.
        """
        # Each pair is made from its later row. The rows of the other side that come before it in its cell are a range.
        rows = self.rows[self.comparable[self.rows]]
        cells = Groups(self.cells.ids[rows], self.cells.count)
        by_cell = rows[cells.order]
        right = self.is_right[by_cell]
        if right.all() or not right.any():
            return
        others = np.concatenate([by_cell[~right], by_cell[right]])
        lefts = len(others) - int(right.sum())
        before: Int64s = np.cumsum(right) - right
        high = np.where(right, np.arange(len(right)) - before, lefts + before)
        if ts is None:
            heads = cells.offsets[cells.ids[cells.order]]
            low = np.where(right, heads - before[heads], lefts + before[heads])
        else:
            low, near = _ranges(cells.ids[cells.order], cells.count, right, ts[by_cell], interval_us)
            high = high if near is None else np.minimum(high, near)
        spans = np.empty((2, len(rows)), np.int64)
        spans[:, cells.order] = low, high
        some = np.flatnonzero(spans[1] > spans[0])
        rows, (low, high) = rows[some], spans[:, some]
        for begin, end in chunks(high - low, CHUNK_PAIRS):
            owner, positions = expand(low[begin:end], high[begin:end])
            later, other = rows[begin:end][owner], others[positions]
            swapped = self.is_right[later]
            yield np.where(swapped, other, later), np.where(swapped, later, other)

    def with_single(self, pairs: Pairs, single: Bools) -> Pairs:
        """Pairs in their order, and between them rows without a partner, each of which stands in both places."""
        alone = self.rows[single[self.rows]]
        rank = np.empty(len(self.is_right), np.int64)
        rank[self.rows] = np.arange(len(self.rows))
        at = np.searchsorted(np.maximum(rank[pairs[0]], rank[pairs[1]]), rank[alone])
        return np.insert(pairs[0], at, alone), np.insert(pairs[1], at, alone)

    def have_partners(self) -> Bools:
        """Which rows have partners, without making pairs."""
        ids, mine = self.cells.ids, self.comparable
        lefts = np.bincount(ids[~self.is_right & mine], minlength=self.cells.count)
        rights = np.bincount(ids[self.is_right & mine], minlength=self.cells.count)
        found: Bools = np.where(self.is_right, lefts[ids], rights[ids]) > 0
        return found & mine


def _ranges(
    cells: Int64s, count: int, right: Bools, ts: Int64s, interval_us: tuple[int, int]
) -> tuple[Int64s, Int64s | None]:
    """For rows by cell and time, the range of rows of the other side that are within the interval.

    Left rows stand before all right ones there. No upper bound if earlier rows are never beyond it.
    """
    low_us, high_us = interval_us
    least = np.where(right, -high_us, low_us)
    most = np.where(right, -low_us, high_us) if low_us > 0 or high_us < 0 else None
    instants, *reached = _numbered(ts, [ts + least, *([] if most is None else [ts + most])], cells, count)
    low, lefts = np.empty_like(ts), int((~right).sum())
    high = None if most is None else np.empty_like(ts)
    for mine, first in ((~right, lefts), (right, 0)):
        theirs = instants[~mine]
        low[mine] = first + np.searchsorted(theirs, reached[0][mine])
        if high is not None:
            high[mine] = first + np.searchsorted(theirs, reached[1][mine], "right")
    return low, high


def _numbered(ts: Int64s, others: list[Int64s], cells: Int64s, count: int) -> list[Int64s]:
    """One number for a cell and an instant, in the order of both: for `ts` and for other instants of the same cells."""
    every = [ts, *others]
    first = min(int(each.min()) for each in every)
    width = max(int(each.max()) for each in every) - first + 1
    if count * width < 1 << 63:
        return [cells * width + (each - first) for each in every]
    _, ranks = np.unique(np.concatenate(every), return_inverse=True)
    base = cells * (int(ranks.max()) + 1)
    return [base + each for each in np.split(ranks, len(every))]
