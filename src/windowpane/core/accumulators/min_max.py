"""min and max over any orderable type: the state is the value itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Inputs, OneStateAccumulator
from windowpane.core.accumulators.kernels.columns import Int64s
from windowpane.core.accumulators.kernels.ordering import extreme_of, order_keys
from windowpane.core.accumulators.kernels.ranges import range_counts, reduce_ranges
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups


class MinMaxAccumulator(OneStateAccumulator):
    """The largest or the smallest value."""

    def __init__(self, type_: pa.DataType, *, largest: bool) -> None:
        self.output_type = type_
        self.state_types: Sequence[pa.DataType] = (type_,)
        self.arrival_states: Sequence[int] = ()
        self._largest = largest

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        order = order_keys(inputs.args[0])
        extreme = extreme_of(order.keys.dtype, largest=self._largest)
        keys = order.keys if order.valid is None else np.where(order.valid, order.keys, extreme.start)
        found = reduce_ranges(extreme.ufunc, keys.astype(order.keys.dtype, copy=False), low, high, extreme.start)
        return [order.restore(found, range_counts(order.valid, low, high) > 0)]

    def fold(self, array: pa.Array, groups: Groups) -> pa.Array:
        order = order_keys(array)
        keys = order.keys
        if order.valid is not None:
            rows = np.flatnonzero(order.valid)
            keys, groups = keys[rows], groups.take(rows)
        extreme = extreme_of(keys.dtype, largest=self._largest)
        found = np.full(groups.count, extreme.start, keys.dtype)
        with np.errstate(invalid="ignore"):
            extreme.ufunc.at(found, groups.ids, keys)
        return order.restore(found, groups.sizes > 0)


def build_min(types: Sequence[pa.DataType], params: Sequence[object]) -> MinMaxAccumulator:  # noqa: ARG001
    require("min", types[0], is_orderable, ORDERABLE)
    return MinMaxAccumulator(types[0], largest=False)


def build_max(types: Sequence[pa.DataType], params: Sequence[object]) -> MinMaxAccumulator:  # noqa: ARG001
    require("max", types[0], is_orderable, ORDERABLE)
    return MinMaxAccumulator(types[0], largest=True)
