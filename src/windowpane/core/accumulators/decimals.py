"""Exact sums of decimals. State is one decimal256, wide enough for any sum of rows; NULL before the first."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.kernels import wide_integers
from windowpane.core.accumulators.kernels.columns import Bools, Float64s, Int64s, physical, validity
from windowpane.core.accumulators.kernels.ranges import prefix_sums, range_counts
from windowpane.core.groups import Groups

MAX_PRECISION = 38
_STATE_PRECISION = 76
_SUM_EXTRA_DIGITS = 10
_EXACT = Context(prec=_STATE_PRECISION)
_EXACT_DIGITS = 15
"""Numbers with up to this many digits, and powers of ten up to 22, are exact as doubles."""


class DecimalSumAccumulator:
    """sum over DECIMAL(p,s): DECIMAL(p+10,s), at most 38 digits."""

    def __init__(self, type_: pa.DataType) -> None:
        self._argument = pa.decimal128(type_.precision, type_.scale)
        self.output_type = pa.decimal128(min(MAX_PRECISION, type_.precision + _SUM_EXTRA_DIGITS), type_.scale)
        self.state_types: Sequence[pa.DataType] = (pa.decimal256(_STATE_PRECISION, type_.scale),)
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return [self._fold(inputs.args[0].cast(self._argument), groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [self._fold(states[0], groups)]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return narrowed(states[0], self.output_type)

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        array = inputs.args[0].cast(self._argument)
        valid = validity(array)
        sums = []
        for limb in wide_integers.from_decimals(array):
            before = prefix_sums(limb if valid is None else np.where(valid, limb, 0))
            sums.append(before[high] - before[low])
        return [wide_integers.to_decimals(sums, self.state_types[0], range_counts(valid, low, high) > 0)]

    def _fold(self, array: pa.Array, groups: Groups) -> pa.Array:
        valid, columns = validity(array), wide_integers.from_decimals(array)
        if valid is not None:
            rows = np.flatnonzero(valid)
            columns, groups = [column[rows] for column in columns], groups.take(rows)
        sums = [sum_by_group(column, groups) for column in columns]
        return wide_integers.to_decimals(sums, self.state_types[0], groups.sizes > 0)


def narrowed(wide: pa.Array, type_: pa.DataType) -> Evaluated:
    """decimal256 as `type_` of the same scale. Values with too many digits become NULL and are marked."""
    bound = pa.scalar(Decimal(10).scaleb(type_.precision - type_.scale - 1, _EXACT), wide.type)
    too_wide: Bools = physical(pc.fill_null(pc.greater_equal(pc.abs(wide), bound), False))
    kept = pc.if_else(pa.array(too_wide), pa.scalar(None, wide.type), wide) if too_wide.any() else wide
    return Evaluated(kept.cast(type_), too_wide)


def doubles_from(array: pa.Array) -> Float64s:
    """The doubles nearest to decimals, undefined where they are NULL. Arrow's own cast may be off by one ulp."""
    if array.type.precision > _EXACT_DIGITS:
        return physical(array.cast(pa.string()).cast(pa.float64()))
    low, high, *_ = wide_integers.from_decimals(array.cast(pa.decimal128(array.type.precision, array.type.scale)))
    whole: Float64s = ((high << 32) | low).astype(np.float64)
    scaled: Float64s = whole / 10.0**array.type.scale
    return scaled
