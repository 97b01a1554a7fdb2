"""listagg and string_agg: the values that are not NULL, joined with a delimiter.

WITHIN GROUP (ORDER BY …) sorts them; without it, and among equals, they stand in (ts, arrival) order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.base import Evaluated, Inputs, WithinGroup
from windowpane.core.accumulators.collect import CollectAccumulator
from windowpane.core.accumulators.kernels.columns import Int64s, lists_from, physical, validity
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, is_text, require
from windowpane.core.groups import Groups
from windowpane.errors import PlanError


class ListaggAccumulator:
    """State: the values, their sort keys, times and arrival numbers."""

    def __init__(self, types: Sequence[pa.DataType], delimiter: bytes, within: WithinGroup) -> None:
        self.output_type = types[0]
        self._delimiter, self._within = delimiter, within
        self._kept = CollectAccumulator(types, distinct=False)
        self.state_types: Sequence[pa.DataType] = self._kept.state_types
        self.arrival_states: Sequence[int] = self._kept.arrival_states

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        valid = validity(inputs.args[0])
        if valid is not None:
            rows = np.flatnonzero(valid)
            inputs, groups = inputs.take(rows), groups.take(rows)
        return self._kept.collect(inputs, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._kept.merge(states, groups)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        inputs, parents = self._kept.collected(states)
        values, sizes = inputs.args[0], np.bincount(parents, minlength=len(states[0])).astype(np.int64)
        if self._within.descending:
            values = values.take(pa.array(self._sorted(inputs.args[1:], parents)))
        delimiter = pa.scalar(self._delimiter, pa.binary()).cast(self.output_type)
        joined = pc.binary_join(lists_from(values, sizes), delimiter)
        return Evaluated(pc.if_else(pa.array(sizes > 0), joined, pa.scalar(None, self.output_type)))

    def _sorted(self, columns: Sequence[pa.Array], parents: Int64s) -> Int64s:
        """Rows by group and sort keys, equals as they stand."""
        keys: list[Int64s] = [parents]
        for column, descending, nulls_first in zip(
            columns, self._within.descending, self._within.nulls_first, strict=True
        ):
            present = physical(column.is_valid()).astype(np.int64)
            order = np.where(present, sortable_integers(column), 0)
            keys += [present if nulls_first else -present, ~order if descending else order]
        return np.lexsort(keys[::-1])


def build_listagg(types: Sequence[pa.DataType], params: Sequence[object]) -> ListaggAccumulator:
    require("listagg", types[0], is_text, "STRING or BINARY; write CAST(x AS STRING)")
    for type_ in types[1:]:
        require("listagg", type_, is_orderable, f"an order of type {ORDERABLE}")
    within = next((param for param in params if isinstance(param, WithinGroup)), WithinGroup())
    delimiter = params[0] if params and params[0] is not within else ""
    if len(within.descending) != len(types) - 1 or not isinstance(delimiter, str):
        message = f"`{delimiter}` is not a delimiter for `listagg`"
        raise PlanError("AGGREGATE_PARAM", message, "write listagg(x, ',') WITHIN GROUP (ORDER BY x)")
    return ListaggAccumulator(types, delimiter.encode(), within)
