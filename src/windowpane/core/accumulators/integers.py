"""Exact sums of integers. State is the sum as high * 2**32 + low in two int64 columns, so that it may leave int64 and
come back; NULL before the first value. It holds any sum of fewer than 2**32 values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.kernels.columns import (
    Bools,
    Float64s,
    Int64s,
    physical,
    present_rows,
    to_arrow,
    validity,
)
from windowpane.core.accumulators.kernels.ranges import prefix_sums, range_counts
from windowpane.core.groups import Groups

_HALF = 32
_LOW_MASK = 2**32 - 1
_HIGH_LIMIT = 2**31


class IntegerSumAccumulator:
    """sum over TINYINT to BIGINT."""

    output_type = pa.int64()
    state_types: Sequence[pa.DataType] = (pa.int64(), pa.int64())
    arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, groups = present_rows(inputs.args[0], groups)
        values = values.astype(np.int64, copy=False)
        if _sums_fit(values, len(values)):
            return _states(*_halves(sum_by_group(values, groups)), groups.sizes > 0)
        high, low = _halves(values)
        return _states(sum_by_group(high, groups), sum_by_group(low, groups), groups.sizes > 0)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        high, present = present_rows(states[0], groups)
        low, _ = present_rows(states[1], groups)
        return _states(sum_by_group(high, present), sum_by_group(low, present), present.sizes > 0)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        high, low, valid = physical(states[0]), physical(states[1]), validity(states[0])
        fits = (high >= -_HIGH_LIMIT) & (high < _HIGH_LIMIT)
        overflow = ~fits if valid is None else ~fits & valid
        return Evaluated(to_arrow((high << _HALF) | low, pa.int64(), fits if valid is None else fits & valid), overflow)

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        values, valid = physical(inputs.args[0]).astype(np.int64, copy=False), validity(inputs.args[0])
        if valid is not None:
            values = np.where(valid, values, 0)
        present = range_counts(valid, low, high) > 0
        if _sums_fit(values, int((high - low).max(initial=0))):
            return _states(*_halves(_range_sums(values, low, high)), present)
        upper, lower = _halves(values)
        return _states(_range_sums(upper, low, high), _range_sums(lower, low, high), present)


def approximate_sums(states: Sequence[pa.Array]) -> Float64s:
    """The sums as doubles, also if they do not fit into int64. Rounded once."""
    sums: Float64s = physical(states[0]) * float(1 << _HALF) + physical(states[1])
    return sums


def _sums_fit(values: Int64s, terms: int) -> bool:
    """Whether no sum of this many values can overflow int64."""
    if len(values) == 0:
        return True
    return max(int(values.max()), -int(values.min())) * terms < 1 << 63


def _halves(values: Int64s) -> tuple[Int64s, Int64s]:
    return values >> _HALF, values & _LOW_MASK


def _range_sums(values: Int64s, low: Int64s, high: Int64s) -> Int64s:
    before = prefix_sums(values)
    return before[high] - before[low]


def _states(high: Int64s, low: Int64s, present: Bools) -> list[pa.Array]:
    return [
        to_arrow(high + (low >> _HALF), pa.int64(), present),
        to_arrow(low & _LOW_MASK, pa.int64(), present),
    ]
