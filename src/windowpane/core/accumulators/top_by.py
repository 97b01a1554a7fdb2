"""min_by and max_by with a number of values: an array, the best first. Of equals, the last to arrive is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.collect import CollectAccumulator
from windowpane.core.accumulators.kernels.columns import lists_from, physical
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.groups import Groups
from windowpane.errors import PlanError

MOST = 100_000


class TopByAccumulator:
    """State: at most `limit` values, what they are ordered by, and their places by (ts, arrival)."""

    def __init__(self, type_: pa.DataType, order_type: pa.DataType, limit: int, *, largest: bool) -> None:
        self._kept = CollectAccumulator([type_, order_type], distinct=False)
        self.output_type = self._kept.output_type
        self.state_types: Sequence[pa.DataType] = self._kept.state_types
        self.arrival_states: Sequence[int] = self._kept.arrival_states
        self._limit, self._largest = limit, largest

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        rows = np.flatnonzero(physical(inputs.args[1].is_valid()))
        return self._best(inputs.take(rows), groups.take(rows))

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        inputs, parents = self._kept.collected(states)
        return self._best(inputs, Groups(groups.ids[parents], groups.count))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        present = pc.greater(pc.list_value_length(states[0]), 0)
        return Evaluated(pc.if_else(present, states[0], pa.scalar(None, self.output_type)))

    def _best(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        keys = sortable_integers(inputs.args[1])
        order = np.lexsort((~inputs.arrival, ~inputs.ts, ~keys if self._largest else keys, groups.ids))
        place = np.arange(len(order)) - groups.offsets[groups.ids[order]]
        order = order[place < self._limit]
        best, sizes = inputs.take(order), np.minimum(groups.sizes, self._limit)
        return [lists_from(column, sizes) for column in (*best.args, pa.array(best.ts), pa.array(best.arrival))]


def build_top_by(name: str, types: Sequence[pa.DataType], written: object) -> TopByAccumulator:
    if not isinstance(written, int) or isinstance(written, bool) or not 1 <= written <= MOST:
        message = f"`{written}` is not a number of values for `{name}`"
        raise PlanError("AGGREGATE_PARAM", message, f"write a whole number from 1 to {MOST}")
    return TopByAccumulator(types[0], types[1], written, largest=name == "max_by")
