"""bit_and, bit_or and bit_xor of integers: the state is the result so far, NULL before the first value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Inputs, OneStateAccumulator
from windowpane.core.accumulators.kernels.columns import Int64s, Values, physical, present_rows, to_arrow, validity
from windowpane.core.accumulators.kernels.ranges import range_counts, reduce_ranges
from windowpane.core.accumulators.types import is_integer, require
from windowpane.core.groups import Groups

_NEUTRAL: dict[np.ufunc, int] = {np.bitwise_and: -1, np.bitwise_or: 0, np.bitwise_xor: 0}


class BitsAccumulator(OneStateAccumulator):
    """Combines the bits of all values with one operator. The result has the type of the argument."""

    def __init__(self, type_: pa.DataType, operator: np.ufunc) -> None:
        self.output_type = type_
        self.state_types: Sequence[pa.DataType] = (type_,)
        self.arrival_states: Sequence[int] = ()
        self._operator, self._neutral = operator, _NEUTRAL[operator]

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        values, valid = physical(inputs.args[0]), validity(inputs.args[0])
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(self._neutral))
        combine = _xor_ranges if self._operator is np.bitwise_xor else self._reduce
        return [to_arrow(combine(values, low, high), self.output_type, range_counts(valid, low, high) > 0)]

    def _reduce(self, values: Values, low: Int64s, high: Int64s) -> Values:
        return reduce_ranges(self._operator, values, low, high, self._neutral)

    def fold(self, array: pa.Array, groups: Groups) -> pa.Array:
        values, groups = present_rows(array, groups)
        result = np.full(groups.count, self._neutral, values.dtype)
        self._operator.at(result, groups.ids, values)
        return to_arrow(result, self.output_type, groups.sizes > 0)


def _xor_ranges(values: Values, low: Int64s, high: Int64s) -> Values:
    """XOR is its own inverse: what precedes a range cancels out."""
    before = np.zeros(len(values) + 1, values.dtype)
    np.bitwise_xor.accumulate(values, out=before[1:])
    result: Values = before[high] ^ before[low]
    return result


def bits_builder(name: str, operator: np.ufunc) -> Callable[[Sequence[pa.DataType], Sequence[object]], BitsAccumulator]:
    def build(types: Sequence[pa.DataType], params: Sequence[object]) -> BitsAccumulator:  # noqa: ARG001
        require(name, types[0], is_integer, "TINYINT, SMALLINT, INT or BIGINT")
        return BitsAccumulator(types[0], operator)

    return build
