"""skewness and kurtosis. State: the number of values, their mean, and sums of powers of deviations from the mean.

The mean is a reference value of the group plus an offset: two doubles, since deviations of values far from zero would
otherwise carry the rounding error of the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.floats import as_doubles
from windowpane.core.accumulators.kernels.columns import Float64s, Int64s, physical, to_arrow, validity
from windowpane.core.accumulators.kernels.exact_floats import weighted_sums
from windowpane.core.accumulators.types import NUMERIC, is_numeric, require
from windowpane.core.groups import Groups


class ShapeAccumulator:
    """Skewness (third moment) or excess kurtosis (fourth moment) of the values, with divisor n."""

    output_type = pa.float64()
    arrival_states: Sequence[int] = ()

    def __init__(self, power: int) -> None:
        self._power = power
        self.state_types: Sequence[pa.DataType] = (pa.int64(), *[pa.float64()] * (power + 1))

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = as_doubles(inputs.args[0]), validity(inputs.args[0])
        if valid is not None:
            values, groups = values[valid], Groups(groups.ids[valid], groups.count)
        none = np.zeros(len(values))
        return self._fold(np.ones(len(values), np.int64), [values, none, *[none] * (self._power - 1)], groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        counts = physical(states[0])
        rows = np.flatnonzero(counts)
        return self._fold(counts[rows], [physical(state)[rows] for state in states[1:]], groups.take(rows))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        counts, squares, highest = physical(states[0]), physical(states[3]), physical(states[-1])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            deviation = np.sqrt(squares / counts)
            result = highest / counts / deviation**self._power - (3.0 if self._power == 4 else 0.0)
        return Evaluated(to_arrow(result, pa.float64(), (counts > 0) & (squares != 0)))

    def _fold(self, counts: Int64s, parts: Sequence[Float64s], groups: Groups) -> list[pa.Array]:
        """States from states of at least one value: count, reference, offset, sums of powers from 2 on."""
        references, offsets, *sums = parts
        totals = sum_by_group(counts, groups)
        reference = np.zeros(groups.count)
        reference[groups.ids[::-1]] = references[::-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shifts = (references - reference[groups.ids]) + offsets
            offset = weighted_sums(counts * shifts, groups) / totals
            shifts = shifts - offset[groups.ids]
            folded = [weighted_sums(term, groups) for term in _shifted(counts, shifts, sums)]
        empty = totals == 0
        return [pa.array(totals), pa.array(reference), *(pa.array(np.where(empty, 0.0, x)) for x in (offset, *folded))]


def _shifted(counts: Int64s, shift: Float64s, sums: Sequence[Float64s]) -> list[Float64s]:
    """Sums of powers of deviations from a mean that is `shift` below the one they were taken from."""
    squares, cubes = sums[0], sums[1]
    shifted = [
        squares + counts * shift**2,
        cubes + 3 * shift * squares + counts * shift**3,
    ]
    if len(sums) == 3:
        shifted.append(sums[2] + 4 * shift * cubes + 6 * shift**2 * squares + counts * shift**4)
    return shifted


def build_skewness(types: Sequence[pa.DataType], params: Sequence[object]) -> ShapeAccumulator:  # noqa: ARG001
    require("skewness", types[0], is_numeric, NUMERIC)
    return ShapeAccumulator(3)


def build_kurtosis(types: Sequence[pa.DataType], params: Sequence[object]) -> ShapeAccumulator:  # noqa: ARG001
    require("kurtosis", types[0], is_numeric, NUMERIC)
    return ShapeAccumulator(4)
