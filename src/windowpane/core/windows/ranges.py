"""Ranges of ordered rows: for many (cell, instant, instant) at once, the rows of the cell between them, inclusive."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class CellIndex:
    """Rows sorted by (cell, ts). A cell is whatever a window must not mix: a partition, or a group in it."""

    def __init__(self, cells: Int64s, ts: Int64s) -> None:
        """`ts` must not decrease: rows come in released order."""
        self.order: Int64s = np.argsort(cells, kind="stable")
        """Row positions by (cell, released order): all ranges are over rows taken in this order."""
        self._instants, ranks = np.unique(ts, return_inverse=True)
        self._width = len(self._instants) + 1
        self._sorted = cells[self.order] * self._width + ranks[self.order]

    def ranges(self, cells: Int64s, first_us: Int64s, last_us: Int64s) -> tuple[Int64s, Int64s]:
        """[low, high) of the rows of each cell with first_us <= ts <= last_us."""
        low = np.searchsorted(self._instants, first_us, "left")
        high = np.searchsorted(self._instants, last_us, "right")
        base = cells * self._width
        return np.searchsorted(self._sorted, base + low), np.searchsorted(self._sorted, base + high)


def expand(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Every (range number, row) such that the row lies in the range."""
    lengths = high - low
    owner = np.repeat(np.arange(len(low)), lengths)
    first = np.cumsum(lengths) - lengths
    return owner, np.arange(len(owner)) - first[owner] + low[owner]
