"""mode: the most frequent value; of values that are equally frequent, the smallest. State: values and their counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs, WithinGroup
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.kernels.columns import Int64s, flatten_lists, lists_from, physical, validity
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.accumulators.kernels.time_order import take_rows
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups, group_rows
from windowpane.errors import PlanError


class ModeAccumulator:
    """`largest` takes the largest of the most frequent values instead of the smallest."""

    def __init__(self, type_: pa.DataType, *, largest: bool = False) -> None:
        self.output_type = type_
        self.state_types: Sequence[pa.DataType] = (pa.list_(type_), pa.list_(pa.int64()))
        self.arrival_states: Sequence[int] = ()
        self._largest = largest

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = inputs.args[0], validity(inputs.args[0])
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, groups = values.take(pa.array(rows)), groups.take(rows)
        return counted(values, np.ones(len(values), np.int64), groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, parents = flatten_lists(states[0])
        counts = physical(flatten_lists(states[1])[0])
        return counted(values, counts, Groups(groups.ids[parents], groups.count))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        values, parents = flatten_lists(states[0])
        counts, keys = physical(flatten_lists(states[1])[0]), sortable_integers(values)
        order = np.lexsort((keys if self._largest else ~keys, counts, parents))
        best = np.full(len(states[0]), -1, np.int64)
        best[parents[order]] = order
        return Evaluated(take_rows(values, best))


def counted(values: pa.Array, counts: Int64s, groups: Groups) -> list[pa.Array]:
    """Lists of the distinct values of each group, and of the sums of their counts."""
    pairs, first = group_rows([pa.array(groups.ids), values], len(values))
    totals, distinct = sum_by_group(counts, pairs), groups.take(first)
    return [
        lists_from(values.take(pa.array(first[distinct.order])), distinct.sizes),
        lists_from(pa.array(totals[distinct.order]), distinct.sizes),
    ]


def build_mode(types: Sequence[pa.DataType], params: Sequence[object]) -> ModeAccumulator:
    require("mode", types[0], is_orderable, ORDERABLE)
    within = params[0] if params else WithinGroup((False,), (True,))
    if isinstance(within, WithinGroup):
        return ModeAccumulator(types[0], largest=within.descending[0])
    if not isinstance(within, bool):
        message = f"`{within}` does not say whether `mode` is deterministic"
        raise PlanError("AGGREGATE_PARAM", message, "write TRUE or FALSE, or leave it out: it always is")
    return ModeAccumulator(types[0])
