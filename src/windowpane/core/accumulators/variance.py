"""Variances and standard deviations. State: count, exact sum, exact sum of squares, so that merging loses nothing and
n * sum(x*x) - sum(x)**2, which cancels, is taken from exact parts only when a result is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import CountAccumulator
from windowpane.core.accumulators.floats import (
    GROWTH_BITS,
    FloatSumAccumulator,
    as_doubles,
    fold_doubles,
    fold_ranges,
    total_of,
)
from windowpane.core.accumulators.kernels import exact_floats
from windowpane.core.accumulators.kernels.columns import Float64s, Int64s, all_valid, physical, to_arrow
from windowpane.core.accumulators.kernels.exact_floats import two_product
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
        squares, lost = _squares(values)
        rows = np.flatnonzero(lost)
        terms = np.concatenate([squares, lost[rows]])
        term_groups = Groups(np.concatenate([groups.ids, groups.ids[rows]]), groups.count)
        return [pa.array(groups.sizes), *fold_doubles(values, groups), *fold_doubles(terms, term_groups)]

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
        squares, lost = _squares(values)
        return [
            *self._count.over_ranges(inputs, low, high),
            *fold_ranges([values], valid, low, high),
            *fold_ranges([squares, lost], valid, low, high),
        ]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        counts = physical(states[0]).astype(np.float64)
        divisors = counts * (counts - 1 if self._sample else counts)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = _spread(counts, states[1:4], states[4:]) / divisors
            result = np.sqrt(result) if self._root else result
        return Evaluated(to_arrow(result, pa.float64(), divisors > 0))


def _squares(values: Float64s) -> tuple[Float64s, Float64s]:
    """x*x, and its rounding error."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return two_product(values, values)


def _spread(counts: Float64s, sums: Sequence[pa.Array], squares: Sequence[pa.Array]) -> Float64s:
    """N * sum(x*x) - sum(x)**2 from exact parts: NaN if an x is not finite, infinite if a square is not."""
    scale = np.frexp(np.where(np.isfinite(total_of(squares)), total_of(squares), 2.0**1023))[1] // 2
    total = _leading([np.ldexp(part, -scale) for part in exact_floats.unpack(sums[1])], len(counts))
    square = _leading(
        [np.ldexp(part, -2 * scale) for part in exact_floats.unpack(squares[1])]
        + [np.ldexp(part, GROWTH_BITS - 2 * scale) for part in exact_floats.unpack(squares[2])],
        len(counts),
    )
    terms = [term for part in square for term in two_product(counts, part)]
    for left, right, times in ((0, 0, -1.0), (0, 1, -2.0), (0, 2, -2.0), (1, 1, -1.0), (1, 2, -2.0)):
        terms += [times * term for term in two_product(total[left], total[right])]
    spread = np.ldexp(np.maximum(exact_floats.compensated(terms), 0.0), 2 * scale)
    special, square_special = physical(sums[0]), physical(squares[0])
    return np.where(special != 0, np.nan, np.where(square_special != 0, np.inf, spread))


def _leading(parts: list[Float64s], count: int) -> list[Float64s]:
    """The three leading doubles of an exact total: 159 bits."""
    leading: list[Float64s] = []
    for _ in range(3):
        found = exact_floats.rounded(parts, count)
        leading.append(found)
        parts = [*parts, -found]
    return leading


def build_variance(name: str, types: Sequence[pa.DataType], *, sample: bool, root: bool) -> VarianceAccumulator:
    require(name, types[0], is_numeric, NUMERIC)
    return VarianceAccumulator(sample=sample, root=root)
