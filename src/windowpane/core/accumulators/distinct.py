"""DISTINCT for any aggregate: a group's distinct arguments are kept as a set, and folded when evaluated."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from windowpane.core.accumulators.base import Accumulator, Evaluated, Inputs
from windowpane.core.accumulators.collect import CollectAccumulator
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups


class DistinctAccumulator:
    """Wraps the accumulator of the same call without DISTINCT. Rows with a NULL among the arguments are skipped."""

    def __init__(self, function: str, inner: Accumulator, types: Sequence[pa.DataType]) -> None:
        for type_ in types:
            require(f"{function}(DISTINCT …)", type_, is_orderable, ORDERABLE)
        self._inner = inner
        self._set = CollectAccumulator(types, distinct=True)
        self.output_type = inner.output_type
        self.state_types: Sequence[pa.DataType] = self._set.state_types

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return self._set.update(inputs, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._set.merge(states, groups)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        inputs, parents = self._set.collected(states)
        return self._inner.evaluate(self._inner.update(inputs, Groups(parents, len(states[0]))))
