"""The order of rows inside groups by (ts, arrival): which is first, which is last, and all of them in that order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.kernels.columns import Bools, Int64s
from windowpane.core.groups import Groups, stable_order

NO_ROW = -1


def earliest_rows(ts: Int64s, arrival: Int64s, groups: Groups) -> Int64s:
    """Per group the row with the smallest (ts, arrival), -1 for a group without rows."""
    return _extreme_rows(np.minimum, np.iinfo(np.int64).max, ts, arrival, groups)


def latest_rows(ts: Int64s, arrival: Int64s, groups: Groups) -> Int64s:
    """Per group the row with the largest (ts, arrival), -1 for a group without rows."""
    return _extreme_rows(np.maximum, np.iinfo(np.int64).min, ts, arrival, groups)


def ordered_rows(ts: Int64s, arrival: Int64s, groups: Groups) -> Int64s:
    """All rows by group, then ts, then arrival."""
    if _is_ordered(ts, arrival):
        return groups.order
    by_time = np.lexsort((arrival, ts))
    return by_time[stable_order(groups.ids[by_time], groups.count)]


def take_rows(array: pa.Array, rows: Int64s) -> pa.Array:
    """Values at rows, NULL where there is no row."""
    missing = rows < 0
    return array.take(pa.array(rows, mask=missing if missing.any() else None))


def is_row(rows: Int64s) -> Bools:
    return rows >= 0


def _extreme_rows(ufunc: np.ufunc, start: int, ts: Int64s, arrival: Int64s, groups: Groups) -> Int64s:
    candidates = np.arange(len(ts))
    for order in (ts, arrival):
        ids, keys = groups.ids[candidates], order[candidates]
        best = np.full(groups.count, start, np.int64)
        ufunc.at(best, ids, keys)
        candidates = candidates[keys == best[ids]]
    rows = np.full(groups.count, NO_ROW, np.int64)
    rows[groups.ids[candidates]] = candidates
    return rows


def _is_ordered(ts: Int64s, arrival: Int64s) -> bool:
    steps, ties = ts[1:] > ts[:-1], ts[1:] == ts[:-1]
    return bool((steps | (ties & (arrival[1:] >= arrival[:-1]))).all())
