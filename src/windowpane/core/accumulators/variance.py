"""Variances and standard deviations. State: count, exact sum, exact sum of squares, so that merging loses nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.central_moments import deviation_products, fold_products, range_products
from windowpane.core.accumulators.count import CountAccumulator
from windowpane.core.accumulators.floats import FloatSumAccumulator, as_doubles, fold_doubles, fold_ranges
from windowpane.core.accumulators.kernels.columns import Int64s, all_valid, physical, to_arrow
from windowpane.core.accumulators.types import NUMERIC, is_numeric, require
from windowpane.core.groups import Groups


class VarianceAccumulator:
    """`sample` divides by n-1 and needs two values; `root` makes it a standard deviation."""

    output_type = pa.float64()

    def __init__(self, *, sample: bool, root: bool) -> None:
        self._sample, self._root = sample, root
        self._count, self._sum = CountAccumulator(), FloatSumAccumulator()
        self.state_types: Sequence[pa.DataType] = (pa.int64(), *self._sum.state_types, *self._sum.state_types)
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = as_doubles(inputs.args[0]), all_valid(inputs.args)
        if valid is not None:
            values, groups = values[valid], Groups(groups.ids[valid], groups.count)
        return [pa.array(groups.sizes), *fold_doubles(values, groups), *fold_products(values, values, groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [
            *self._count.merge(states[:1], groups),
            *self._sum.merge(states[1:4], groups),
            *self._sum.merge(states[4:], groups),
        ]

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        values, valid = as_doubles(inputs.args[0]), all_valid(inputs.args)
        if valid is not None:
            values = np.where(valid, values, 0.0)
        return [
            *self._count.over_ranges(inputs, low, high),
            *fold_ranges([values], valid, low, high),
            *range_products(values, values, valid, low, high),
        ]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        counts = physical(states[0]).astype(np.float64)
        divisors = counts * (counts - 1 if self._sample else counts)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            spread = np.maximum(deviation_products(counts, states[1:4], states[1:4], states[4:]), 0.0)
            result = spread / divisors
            result = np.sqrt(result) if self._root else result
        return Evaluated(to_arrow(result, pa.float64(), divisors > 0))


def build_variance(name: str, types: Sequence[pa.DataType], *, sample: bool, root: bool) -> VarianceAccumulator:
    require(name, types[0], is_numeric, NUMERIC)
    return VarianceAccumulator(sample=sample, root=root)
