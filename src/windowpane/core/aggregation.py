"""Aggregation over columns: a query's calls bound to their accumulators, folding rows and states into state batches.

A state batch has the columns it is grouped by and, for call `_a0`, its state columns `_a0.0`, `_a0.1`, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.accumulators import build_accumulator
from windowpane.core.accumulators.base import Accumulator, Inputs
from windowpane.core.accumulators.user import UserAccumulator
from windowpane.core.groups import Groups, group_rows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Call:
    """An aggregate call over row columns: `filter` names a bool column, `inputs` the argument columns."""

    name: str
    function: str
    inputs: tuple[str, ...] = ()
    params: tuple[object, ...] = ()
    distinct: bool = False
    filter: str | None = None


@dataclass(frozen=True)
class _Bound:
    call: Call
    accumulator: Accumulator
    state_names: tuple[str, ...]


class Aggregator:
    """All calls of one query over one input schema. Stateless: state is what goes in and comes out."""

    def __init__(self, calls: Sequence[Call], keys: Sequence[str], schema: pa.Schema) -> None:
        self.keys, self._schema = tuple(keys), schema
        self._bound = [_bind(call, schema) for call in calls]
        self._state_fields = [schema.field(key) for key in keys] + [
            pa.field(name, kind)
            for bound in self._bound
            for name, kind in zip(bound.state_names, bound.accumulator.state_types, strict=True)
        ]
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}
        self.arrival_names = tuple(
            bound.state_names[index] for bound in self._bound for index in bound.accumulator.arrival_states
        )
        """State columns that keep arrival numbers."""
        self.state_names = frozenset(name for bound in self._bound for name in bound.state_names)
        own = any(isinstance(bound.accumulator, UserAccumulator) for bound in self._bound)
        self.is_ordered = own or bool(self.arrival_names)
        """Whether results depend on the order of rows. Those of user aggregates are assumed to."""

    def state_schema(self, leading: Sequence[str] = ()) -> pa.Schema:
        """Schema of state batches that start with the int64 columns `leading`."""
        names = tuple(leading)
        if names not in self._schemas:
            self._schemas[names] = pa.schema([*(pa.field(name, pa.int64()) for name in names), *self._state_fields])
        return self._schemas[names]

    def fold(self, rows: pa.RecordBatch, leading: dict[str, Int64s]) -> pa.RecordBatch:
        """Rows to states, grouped by the int64 columns `leading` and the keys."""
        by = [pa.array(values) for values in leading.values()] + [rows.column(key) for key in self.keys]
        groups, first = group_rows(by, rows.num_rows)
        return self.fold_groups(rows, groups, [column.take(pa.array(first)) for column in by], list(leading))

    def fold_groups(
        self, rows: pa.RecordBatch, groups: Groups, heads: Sequence[pa.Array], leading: Sequence[str]
    ) -> pa.RecordBatch:
        """Rows to states for groups made by the caller; `heads` are the columns grouped by, one value per group."""
        arrays = list(heads)
        for bound in self._bound:
            arrays += _update(bound, rows, groups)
        return pa.RecordBatch.from_arrays(arrays, schema=self.state_schema(leading))

    def without_rows(self, heads: Sequence[pa.Array], leading: Sequence[str]) -> pa.RecordBatch:
        """States of groups that have no rows; `heads` as for `fold_groups`."""
        none = Groups(np.zeros(0, np.int64), len(heads[0]))
        return self.fold_groups(empty_batch(self._schema), none, heads, leading)

    def merge(self, states: Sequence[pa.RecordBatch], leading: Sequence[str] = ()) -> pa.RecordBatch:
        """States to states: rows that agree in `leading` and the keys become one."""
        present = [batch for batch in states if batch.num_rows]
        if len(present) == 1:
            return present[0]
        if not present:
            return empty_batch(self.state_schema(leading))
        batch = pa.concat_batches(present)
        by = [batch.column(name) for name in (*leading, *self.keys)]
        groups, first = group_rows(by, batch.num_rows)
        return self.merge_groups(batch, groups, [column.take(pa.array(first)) for column in by], leading)

    def merge_groups(
        self, states: pa.RecordBatch, groups: Groups, heads: Sequence[pa.Array], leading: Sequence[str]
    ) -> pa.RecordBatch:
        """States to states for groups made by the caller."""
        arrays = list(heads)
        for bound in self._bound:
            arrays += bound.accumulator.merge([states.column(name) for name in bound.state_names], groups)
        return pa.RecordBatch.from_arrays(arrays, schema=self.state_schema(leading))

    def over_ranges(self, rows: pa.RecordBatch, low: Int64s, high: Int64s, heads: Sequence[pa.Array]) -> pa.RecordBatch:
        """States of many ranges of ordered rows; `heads` are the key columns, one value per range."""
        arrays = list(heads)
        for bound in self._bound:
            arrays += _update_ranges(bound, rows, low, high)
        return pa.RecordBatch.from_arrays(arrays, schema=self.state_schema())

    def evaluate(self, states: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, Bools], dict[str, Bools]]:
        """Result columns by call name, and by calls the groups in which they overflowed, and in which they raised."""
        values, overflows, failures = {}, {}, {}
        for bound in self._bound:
            result = bound.accumulator.evaluate([states.column(name) for name in bound.state_names])
            values[bound.call.name] = result.values
            if result.overflow is not None and result.overflow.any():
                overflows[bound.call.name] = result.overflow
            if result.failed is not None and result.failed.any():
                failures[bound.call.name] = result.failed
        return values, overflows, failures

    def describe(self, name: str) -> str:
        """The call as SQL spells it."""
        call = next(bound.call for bound in self._bound if bound.call.name == name)
        return f"{call.function}({', '.join(call.inputs) or '*'})"


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _bind(call: Call, schema: pa.Schema) -> _Bound:
    types = [schema.field(name).type for name in call.inputs]
    accumulator = build_accumulator(call.function, types, call.params, call.distinct)
    names = tuple(f"{call.name}.{index}" for index in range(len(accumulator.state_types)))
    return _Bound(call, accumulator, names)


def _inputs(call: Call, rows: pa.RecordBatch) -> Inputs:
    columns = [rows.column(name) for name in call.inputs]
    return Inputs(columns, rows.column(c.EVENT_TIME).to_numpy(), rows.column(c.ARRIVAL).to_numpy())


def _selected(call: Call, rows: pa.RecordBatch) -> Int64s | None:
    """Numbers of the rows that pass the FILTER of the call; None if it has no FILTER. NULL does not pass."""
    if call.filter is None:
        return None
    return np.flatnonzero(pc.fill_null(rows.column(call.filter), False).to_numpy(zero_copy_only=False))


def _update(bound: _Bound, rows: pa.RecordBatch, groups: Groups) -> list[pa.Array]:
    inputs, chosen = _inputs(bound.call, rows), _selected(bound.call, rows)
    if chosen is None:
        return bound.accumulator.update(inputs, groups)
    return bound.accumulator.update(inputs.take(chosen), groups.take(chosen))


def _update_ranges(bound: _Bound, rows: pa.RecordBatch, low: Int64s, high: Int64s) -> list[pa.Array]:
    inputs, chosen = _inputs(bound.call, rows), _selected(bound.call, rows)
    accumulate = bound.accumulator.over_ranges  # type: ignore[attr-defined]  # the planner fuses only ranged calls
    if chosen is not None:
        inputs, low, high = inputs.take(chosen), np.searchsorted(chosen, low), np.searchsorted(chosen, high)
    states: list[pa.Array] = accumulate(inputs, low, high)
    return states
