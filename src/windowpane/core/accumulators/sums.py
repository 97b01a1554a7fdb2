"""sum and avg: the kind of sum an argument type needs, and averages on the same ground."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs, RangedAccumulator
from windowpane.core.accumulators.count import CountAccumulator
from windowpane.core.accumulators.decimals import MAX_PRECISION, DecimalSumAccumulator, narrowed
from windowpane.core.accumulators.floats import FloatSumAccumulator, total_of
from windowpane.core.accumulators.integers import IntegerSumAccumulator, approximate_sums
from windowpane.core.accumulators.kernels import wide_integers
from windowpane.core.accumulators.kernels.columns import Float64s, Int64s, physical, to_arrow, validity
from windowpane.core.accumulators.types import NUMERIC, is_decimal, is_integer, is_numeric, require
from windowpane.core.groups import Groups

_AVG_EXTRA_DIGITS = 4


class AverageAccumulator:
    """Sum and count. Subclasses say how one is divided by the other."""

    def __init__(self, total: RangedAccumulator, output_type: pa.DataType) -> None:
        self._sum, self._count = total, CountAccumulator()
        self.output_type = output_type
        self.state_types: Sequence[pa.DataType] = (*total.state_types, pa.int64())
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return self._sum.update(inputs, groups) + self._count.update(inputs, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._sum.merge(states[:-1], groups) + self._count.merge(states[-1:], groups)

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        return self._sum.over_ranges(inputs, low, high) + self._count.over_ranges(inputs, low, high)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        counts = np.maximum(physical(states[-1]), 1)
        with np.errstate(invalid="ignore"):
            means = self.sums(states) / counts
        return Evaluated(to_arrow(means, self.output_type, validity(states[0])))

    def sums(self, states: Sequence[pa.Array]) -> Float64s:
        """The sums as doubles."""
        raise NotImplementedError


class IntegerAverageAccumulator(AverageAccumulator):
    """avg over TINYINT to BIGINT."""

    def __init__(self) -> None:
        super().__init__(IntegerSumAccumulator(), pa.float64())

    def sums(self, states: Sequence[pa.Array]) -> Float64s:
        return approximate_sums(states)


class FloatAverageAccumulator(AverageAccumulator):
    """avg over FLOAT and DOUBLE."""

    def __init__(self) -> None:
        super().__init__(FloatSumAccumulator(), pa.float64())

    def sums(self, states: Sequence[pa.Array]) -> Float64s:
        return total_of(states)


class DecimalAverageAccumulator(AverageAccumulator):
    """avg over DECIMAL(p,s): DECIMAL(p+4,s+4), at most 38 digits, rounded half up."""

    def __init__(self, type_: pa.DataType) -> None:
        scale = min(MAX_PRECISION, type_.scale + _AVG_EXTRA_DIGITS)
        precision = min(MAX_PRECISION, type_.precision + _AVG_EXTRA_DIGITS)
        super().__init__(DecimalSumAccumulator(type_), pa.decimal128(precision, scale))
        self._factor = 10 ** (scale - type_.scale)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        counts = np.maximum(physical(states[1]), 1)
        means = wide_integers.divided_half_up(wide_integers.from_decimals(states[0]), self._factor, counts)
        present = np.ones(len(counts), np.bool_) if states[0].null_count == 0 else physical(states[0].is_valid())
        wide = wide_integers.to_decimals(means, pa.decimal256(76, self.output_type.scale), present)
        return narrowed(wide, self.output_type)


def build_sum(types: Sequence[pa.DataType], params: Sequence[object]) -> RangedAccumulator:  # noqa: ARG001
    require("sum", types[0], is_numeric, NUMERIC)
    if is_integer(types[0]):
        return IntegerSumAccumulator()
    return DecimalSumAccumulator(types[0]) if is_decimal(types[0]) else FloatSumAccumulator()


def build_avg(types: Sequence[pa.DataType], params: Sequence[object]) -> RangedAccumulator:  # noqa: ARG001
    require("avg", types[0], is_numeric, NUMERIC)
    if is_integer(types[0]):
        return IntegerAverageAccumulator()
    return DecimalAverageAccumulator(types[0]) if is_decimal(types[0]) else FloatAverageAccumulator()
