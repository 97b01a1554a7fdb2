"""Pairs of rows of two sides: which rows meet, in the order of time, without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from windowpane.core.groups import Groups
from windowpane.core.windows.ranges import CellIndex, chunks, expand

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
        sorted_rows = rows[cells.order]
        right = self.is_right[sorted_rows]
        if right.all() or not right.any():
            return
        others = np.concatenate([sorted_rows[~right], sorted_rows[right]])
        rights = len(others) - int(right.sum())
        before: Int64s = np.cumsum(right) - right
        earlier = np.where(right, np.arange(len(right)) - before, rights + before)
        low, high = np.empty_like(earlier), np.empty_like(earlier)
        heads = cells.offsets[cells.ids[cells.order]]
        low[cells.order] = np.where(right, heads - before[heads], rights + before[heads])
        high[cells.order] = earlier
        if ts is not None:
            _narrow(low, high, rights, cells=cells, right=self.is_right[rows], ts=ts[rows], reach_us=interval_us)
        some = np.flatnonzero(high > low)
        rows, low, high = rows[some], low[some], high[some]
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


def _narrow(
    low: Int64s, high: Int64s, base: int, *, cells: Groups, right: Bools, ts: Int64s, reach_us: tuple[int, int]
) -> None:
    """Leave only rows within the interval in the range of each row. `base`: where the ranges of left rows begin."""
    low_us, high_us = reach_us
    for mine, (earliest_us, latest_us), first in ((~right, (low_us, high_us), base), (right, (-high_us, -low_us), 0)):
        index = CellIndex(Groups(cells.ids[~mine], cells.count), ts[~mine])
        near = index.ranges(cells.ids[mine], ts[mine] + earliest_us, ts[mine] + latest_us)
        low[mine] = np.maximum(low[mine], near[0] + first)
        high[mine] = np.minimum(high[mine], near[1] + first)
