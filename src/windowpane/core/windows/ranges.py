"""Ranges of ordered rows: for many (cell, instant, instant) at once, the rows of the cell between them, inclusive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from windowpane.core.groups import Groups

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class CellIndex:
    """Rows sorted by (cell, ts). A cell is whatever a window must not mix: a partition, or a group in it."""

    def __init__(self, cells: Groups, ts: Int64s) -> None:
        """`ts` must not decrease: rows come in released order."""
        self._count = cells.count
        self.order: Int64s | None = None if cells.count == 1 else cells.order
        """Row positions by (cell, released order): all ranges are over rows taken in this order. None: as they are."""
        self._instants = self._sorted = ts
        if self.order is not None:
            heads = run_heads(ts)
            self._instants = ts[heads]
            self._sorted = cells.ids[self.order] * self._width + (np.cumsum(heads) - 1)[self.order]

    @property
    def _width(self) -> int:
        return len(self._instants) + 1

    def ranges(self, cells: Int64s, first_us: Int64s, last_us: Int64s) -> tuple[Int64s, Int64s]:
        """[low, high) of the rows of each cell with first_us <= ts <= last_us."""
        low = np.searchsorted(self._instants, first_us, "left")
        high = np.searchsorted(self._instants, last_us, "right")
        if self.order is None:
            return low, high
        # Binary searches are several times faster when one starts near where the last one ended.
        nearby = Groups(cells, self._count).order
        base = cells[nearby] * self._width
        low[nearby] = np.searchsorted(self._sorted, base + low[nearby])
        high[nearby] = np.searchsorted(self._sorted, base + high[nearby])
        return low, high


def run_heads(*columns: Int64s) -> Bools:
    """Marks the first of each run of rows that are equal in all columns."""
    heads = np.ones(len(columns[0]), bool)
    heads[1:] = False
    for column in columns:
        heads[1:] |= column[1:] != column[:-1]
    return heads


def rank_in_runs(heads: Bools) -> Int64s:
    """How many rows of its run stand before each row; `heads` marks the first of each run."""
    if heads.all():
        return np.zeros(len(heads), np.int64)
    starts = np.flatnonzero(heads)
    return np.arange(len(heads)) - np.repeat(starts, np.diff(np.append(starts, len(heads))))


def arithmetic_runs(values: Int64s, step: int) -> list[list[int]]:
    """Sorted values as [first, step, count], one for each run in which they are `step` apart.

    >>> arithmetic_runs(np.array([0, 10, 20, 50]), 10)
    [[0, 10, 3], [50, 10, 1]]
    """
    if not len(values):
        return []
    heads = np.flatnonzero(np.append([True], np.diff(values) != step))
    counts = np.diff(np.append(heads, len(values)))
    return [[first, step, count] for first, count in zip(values[heads].tolist(), counts.tolist(), strict=True)]


def expand(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Every (range number, row) such that the row lies in the range."""
    lengths = high - low
    owner = np.repeat(np.arange(len(low)), lengths)
    first = np.cumsum(lengths) - lengths
    return owner, np.arange(len(owner)) + np.repeat(low - first, lengths)


def union_of_ranges(low: Int64s, high: Int64s) -> Int64s:
    """All numbers that lie in one of the ranges [low, high), sorted. Neither bound may decrease.

    >>> union_of_ranges(np.array([0, 1, 7, 9]), np.array([3, 4, 7, 11])).tolist()
    [0, 1, 2, 3, 9, 10]
    """
    if len(low) > 1:
        low = np.append(low[:1], np.maximum(low[1:], high[:-1]))
    return expand(low, np.maximum(low, high))[1]


def chunks(sizes: Int64s, limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive [first, last) of elements whose sizes add up to about `limit`, at least one each."""
    total = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + limit, "right")))
        yield first, last
        first = last
