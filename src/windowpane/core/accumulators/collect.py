"""collect_list and collect_set in (ts, arrival) order, without NULLs. State: values, times and arrival numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import Int64s, all_valid, flatten_lists, lists_from, physical
from windowpane.core.accumulators.kernels.time_order import earliest_rows, ordered_rows
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups, group_rows


class CollectAccumulator:
    """All values; with `distinct`, the first of those that are equal (as group keys are)."""

    def __init__(self, types: Sequence[pa.DataType], *, distinct: bool) -> None:
        self.output_type = pa.list_(types[0])
        self.state_types: Sequence[pa.DataType] = (
            *(pa.list_(type_) for type_ in types),
            pa.list_(pa.int64()),
            pa.list_(pa.int64()),
        )
        self.arrival_states: Sequence[int] = (len(types) + 1,)
        self._distinct = distinct

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        valid = all_valid(inputs.args)
        if valid is not None:
            rows = np.flatnonzero(valid)
            inputs, groups = inputs.take(rows), groups.take(rows)
        return self.collect(inputs, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        inputs, parents = self.collected(states)
        return self.collect(inputs, Groups(groups.ids[parents], groups.count))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(states[0])

    def collected(self, states: Sequence[pa.Array]) -> tuple[Inputs, Int64s]:
        """The content of the states as rows, and the state of each row."""
        *values, ts, arrival = (flatten_lists(state)[0] for state in states)
        return Inputs(values, physical(ts), physical(arrival)), flatten_lists(states[0])[1]

    def collect(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        """States of rows as they are, those with a NULL included."""
        if self._distinct and len(inputs):
            pairs, _ = group_rows([pa.array(groups.ids), *inputs.args], len(inputs))
            rows = earliest_rows(inputs.ts, inputs.arrival, pairs)
            inputs, groups = inputs.take(rows), groups.take(rows)
        ordered = inputs.take(ordered_rows(inputs.ts, inputs.arrival, groups))
        columns = (*ordered.args, pa.array(ordered.ts), pa.array(ordered.arrival))
        return [lists_from(column, groups.sizes) for column in columns]


def build_collect_list(types: Sequence[pa.DataType], params: Sequence[object]) -> CollectAccumulator:  # noqa: ARG001
    return CollectAccumulator(types, distinct=False)


def build_collect_set(types: Sequence[pa.DataType], params: Sequence[object]) -> CollectAccumulator:  # noqa: ARG001
    require("collect_set", types[0], is_orderable, ORDERABLE)
    return CollectAccumulator(types, distinct=True)
