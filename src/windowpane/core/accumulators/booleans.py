"""bool_and and bool_or: the state is the result so far, NULL before the first value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Inputs, OneStateAccumulator
from windowpane.core.accumulators.kernels.columns import Bools, Int64s, physical, present_rows, to_arrow, validity
from windowpane.core.accumulators.kernels.ranges import range_counts
from windowpane.core.accumulators.types import is_boolean, require
from windowpane.core.groups import Groups


class BooleanAccumulator(OneStateAccumulator):
    """One value equal to `decider` decides: True for bool_or, False for bool_and."""

    output_type = pa.bool_()
    state_types: Sequence[pa.DataType] = (pa.bool_(),)
    arrival_states: Sequence[int] = ()

    def __init__(self, *, decider: bool) -> None:
        self._decider = decider

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        flags, valid = physical(inputs.args[0]), validity(inputs.args[0])
        deciding = flags == self._decider
        decided = range_counts(deciding if valid is None else deciding & valid, low, high) > 0
        return [self._answer(decided, range_counts(valid, low, high) > 0)]

    def fold(self, array: pa.Array, groups: Groups) -> pa.Array:
        flags, groups = present_rows(array, groups)
        decided = np.zeros(groups.count, np.bool_)
        decided[groups.ids[flags == self._decider]] = True
        return self._answer(decided, groups.sizes > 0)

    def _answer(self, decided: Bools, present: Bools) -> pa.Array:
        return to_arrow(decided == self._decider, pa.bool_(), present)


def build_bool_and(types: Sequence[pa.DataType], params: Sequence[object]) -> BooleanAccumulator:  # noqa: ARG001
    require("bool_and", types[0], is_boolean, "BOOLEAN")
    return BooleanAccumulator(decider=False)


def build_bool_or(types: Sequence[pa.DataType], params: Sequence[object]) -> BooleanAccumulator:  # noqa: ARG001
    require("bool_or", types[0], is_boolean, "BOOLEAN")
    return BooleanAccumulator(decider=True)
