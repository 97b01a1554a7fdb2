"""min_by and max_by: the value of one column where another is smallest or largest; of equals, the last to arrive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Accumulator, Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import Int64s, physical
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.accumulators.kernels.ranges import reduce_ranges
from windowpane.core.accumulators.kernels.time_order import is_row, latest_rows, take_rows
from windowpane.core.accumulators.top_by import build_top_by
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups


class MinMaxByAccumulator:
    """State: the value, what it is ordered by (NULL: no row yet), and its place by (ts, arrival)."""

    def __init__(self, type_: pa.DataType, order_type: pa.DataType, *, largest: bool) -> None:
        self.output_type = type_
        self.state_types: Sequence[pa.DataType] = (type_, order_type, pa.int64(), pa.int64())
        self.arrival_states: Sequence[int] = (3,)
        self._largest = largest

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return self._pick(inputs.args, inputs.ts, inputs.arrival, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._pick(states[:2], physical(states[2]), physical(states[3]), groups)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(states[0])

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        keys, kept = self._keys(inputs.args[1])
        _, ranks = np.unique(keys, return_inverse=True)
        # One number holds rank and row, so that the largest is the best row and, of equals, the last.
        placed = np.full(len(inputs), -1, np.int64)
        placed[kept] = ranks * len(inputs) + kept
        best = reduce_ranges(np.maximum, placed, low, high, -1)
        rows = np.where(best >= 0, best % max(len(inputs), 1), -1)
        return _states(inputs.args, inputs.ts, inputs.arrival, rows)

    def _keys(self, array: pa.Array) -> tuple[Int64s, Int64s]:
        """Numbers of which the largest is wanted, and the rows they are of: those that are not NULL."""
        kept = np.flatnonzero(physical(array.is_valid()))
        keys = sortable_integers(array)[kept]
        return keys if self._largest else ~keys, kept

    def _pick(self, columns: Sequence[pa.Array], ts: Int64s, arrival: Int64s, groups: Groups) -> list[pa.Array]:
        keys, kept = self._keys(columns[1])
        ids = groups.ids[kept]
        best = np.full(groups.count, np.iinfo(np.int64).min, np.int64)
        np.maximum.at(best, ids, keys)
        kept = kept[keys == best[ids]]
        found = latest_rows(ts[kept], arrival[kept], groups.take(kept))
        rows = found if len(kept) == 0 else np.where(is_row(found), kept[found], -1)
        return _states(columns, ts, arrival, rows)


def _states(columns: Sequence[pa.Array], ts: Int64s, arrival: Int64s, rows: Int64s) -> list[pa.Array]:
    return [take_rows(column, rows) for column in (*columns, pa.array(ts), pa.array(arrival))]


def build_min_by(types: Sequence[pa.DataType], params: Sequence[object]) -> Accumulator:
    return _build("min_by", types, params)


def build_max_by(types: Sequence[pa.DataType], params: Sequence[object]) -> Accumulator:
    return _build("max_by", types, params)


def _build(name: str, types: Sequence[pa.DataType], params: Sequence[object]) -> Accumulator:
    require(name, types[1], is_orderable, f"an order of type {ORDERABLE}")
    if params:
        return build_top_by(name, types, params[0])
    return MinMaxByAccumulator(types[0], types[1], largest=name == "max_by")
