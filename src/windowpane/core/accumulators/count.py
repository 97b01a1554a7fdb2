"""count(*), count(x), count(a, b) and count_if: one int64 per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import Bools, Int64s, all_valid, physical, to_arrow, validity
from windowpane.core.accumulators.kernels.ranges import prefix_sums
from windowpane.core.accumulators.types import is_boolean, require
from windowpane.core.groups import Groups


class CountAccumulator:
    """Counts the rows in which no argument is NULL. Subclasses may override `counted`."""

    output_type = pa.int64()
    state_types: Sequence[pa.DataType] = (pa.int64(),)
    arrival_states: Sequence[int] = ()

    def counted(self, inputs: Inputs) -> Bools | None:
        """The rows to count; None for all."""
        return all_valid(inputs.args)

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        chosen = self.counted(inputs)
        if chosen is None:
            return [pa.array(groups.sizes)]
        return [pa.array(np.bincount(groups.ids[chosen], minlength=groups.count).astype(np.int64, copy=False))]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [pa.array(sum_by_group(physical(states[0]), groups))]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(states[0])

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        chosen = self.counted(inputs)
        if chosen is None:
            return [to_arrow(high - low, pa.int64())]
        before = prefix_sums(chosen.astype(np.int64))
        return [pa.array(before[high] - before[low])]


class CountIfAccumulator(CountAccumulator):
    """Counts the rows whose argument is true."""

    def counted(self, inputs: Inputs) -> Bools:
        flags, valid = physical(inputs.args[0]), validity(inputs.args[0])
        return flags if valid is None else flags & valid


def sum_by_group(values: Int64s, groups: Groups) -> Int64s:
    """int64 sums per group. The caller makes sure that they fit."""
    total = np.zeros(groups.count, np.int64)
    np.add.at(total, groups.ids, values)
    return total


def build_count(types: Sequence[pa.DataType], params: Sequence[object]) -> CountAccumulator:  # noqa: ARG001
    return CountAccumulator()


def build_count_if(types: Sequence[pa.DataType], params: Sequence[object]) -> CountIfAccumulator:  # noqa: ARG001
    require("count_if", types[0], is_boolean, "BOOLEAN")
    return CountIfAccumulator()
