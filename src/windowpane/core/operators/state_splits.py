"""Where state windows begin and end among rows sorted by partition, each partition's rows in released order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.rows import flags

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Splits:
    """The windows that close: [low, high) of the rows of a partition. A window that was open begins before the rows of
    its partition: there, low is less than the first of them.
    """

    low: Int64s
    high: Int64s
    owner: Int64s
    """The partition of each window."""
    kept_from: Int64s
    """For each partition, from where its rows stay open: less than its first one if the window that was open stays
    open, and its end if none is.
    """


def split_pairs(ordered: pa.RecordBatch, offsets: Int64s, already_open: Bools) -> Splits:
    """Windows from a row that matches OPEN to a later one that matches EMIT, both included.

    Every round finds the next window of all partitions at once.
    """
    next_open = _next_true(flags(ordered, c.OPEN))
    next_close = np.append(_next_true(flags(ordered, c.EMIT)), ordered.num_rows)
    ends, cursor = offsets[1:], offsets[:-1].copy()
    start = np.where(already_open, cursor - 1, next_open[cursor])
    kept_from, lows, highs, owners = ends.copy(), list[Int64s](), list[Int64s](), list[Int64s]()
    active = np.flatnonzero(start < ends)
    while len(active):
        begin = start[active]
        close = next_close[begin + 1]
        complete = close < ends[active]
        kept_from[active[~complete]] = begin[~complete]
        lows.append(begin[complete])
        highs.append(close[complete] + 1)
        active = active[complete]
        owners.append(active)
        cursor = close[complete] + 1
        inside = cursor < ends[active]
        active, cursor = active[inside], cursor[inside]
        start[active] = next_open[cursor]
        active = active[start[active] < ends[active]]
    return Splits(_joined(lows), _joined(highs), _joined(owners), kept_from)


def split_single(ordered: pa.RecordBatch, offsets: Int64s, already_open: Bools) -> Splits:
    """Windows from one row that matches OPEN to the next, which belongs to the window after."""
    marks = np.flatnonzero(flags(ordered, c.OPEN))
    earlier = np.flatnonzero(already_open)
    heads = np.concatenate([offsets[earlier] - 1, marks])
    partition = np.concatenate([earlier, np.searchsorted(offsets, marks, "right") - 1])
    order = np.lexsort((heads, partition))
    heads, partition = heads[order], partition[order]
    is_last = np.ones(len(heads), bool)
    is_last[:-1] = partition[1:] != partition[:-1]
    kept_from = offsets[1:].copy()
    kept_from[partition[is_last]] = heads[is_last]
    following = np.append(heads[1:], 0)[: len(heads)]
    return Splits(heads[~is_last], following[~is_last], partition[~is_last], kept_from)


def _next_true(mask: Bools) -> Int64s:
    """For each position the nearest at or after it where the mask is true; the length where there is none."""
    where = np.where(mask, np.arange(len(mask)), len(mask))
    return np.minimum.accumulate(where[::-1])[::-1]


def _joined(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
