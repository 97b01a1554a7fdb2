"""first, last and any_value by (ts, arrival). State: value, time (NULL: no row) and arrival number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import Bools, Int64s, physical, validity
from windowpane.core.accumulators.kernels.time_order import earliest_rows, is_row, latest_rows, take_rows
from windowpane.core.groups import Groups
from windowpane.errors import PlanError


class FirstLastAccumulator:
    """The first or last value. With `skip_nulls` the first or last that is not NULL."""

    def __init__(self, type_: pa.DataType, *, last: bool, skip_nulls: bool) -> None:
        self.output_type = type_
        self.state_types: Sequence[pa.DataType] = (type_, pa.int64(), pa.int64())
        self.arrival_states: Sequence[int] = (2,)
        self._last, self._skip_nulls = last, skip_nulls

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        chosen = validity(inputs.args[0]) if self._skip_nulls else None
        return self._pick(inputs.args[0], inputs.ts, inputs.arrival, groups, chosen)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._pick(states[0], physical(states[1]), physical(states[2]), groups, validity(states[1]))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(states[0])

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        rows = high - 1 if self._last else low
        valid = validity(inputs.args[0]) if self._skip_nulls else None
        if valid is not None:
            rows = _nearest_before(valid)[high] if self._last else _nearest_from(valid)[low]
        return _states(inputs.args[0], inputs.ts, inputs.arrival, np.where((rows >= low) & (rows < high), rows, -1))

    def _pick(
        self, values: pa.Array, ts: Int64s, arrival: Int64s, groups: Groups, chosen: Bools | None
    ) -> list[pa.Array]:
        choose = latest_rows if self._last else earliest_rows
        if chosen is None:
            return _states(values, ts, arrival, choose(ts, arrival, groups))
        kept = np.flatnonzero(chosen)
        found = choose(ts[kept], arrival[kept], groups.take(kept))
        rows = found if len(kept) == 0 else np.where(is_row(found), kept[found], -1)
        return _states(values, ts, arrival, rows)


def _states(values: pa.Array, ts: Int64s, arrival: Int64s, rows: Int64s) -> list[pa.Array]:
    return [take_rows(column, rows) for column in (values, pa.array(ts), pa.array(arrival))]


def _nearest_from(chosen: Bools) -> Int64s:
    """For each row, the first chosen one at or after it; the number of rows if there is none."""
    end = len(chosen)
    own = np.append(np.where(chosen, np.arange(end), end), end)
    return np.minimum.accumulate(own[::-1])[::-1]


def _nearest_before(chosen: Bools) -> Int64s:
    """For each row, the last chosen one before it; -1 if there is none."""
    own = np.insert(np.where(chosen, np.arange(len(chosen)), -1), 0, -1)
    return np.maximum.accumulate(own)


def _skip_nulls(function: str, params: Sequence[object]) -> bool:
    if not params:
        return True
    if not isinstance(params[0], bool):
        raise PlanError(
            "AGGREGATE_PARAM",
            f"the second argument of `{function}` says whether NULLs are skipped, `{params[0]}` does not",
            "write true or false",
        )
    return params[0]


def build_first(types: Sequence[pa.DataType], params: Sequence[object]) -> FirstLastAccumulator:
    return FirstLastAccumulator(types[0], last=False, skip_nulls=_skip_nulls("first", params))


def build_last(types: Sequence[pa.DataType], params: Sequence[object]) -> FirstLastAccumulator:
    return FirstLastAccumulator(types[0], last=True, skip_nulls=_skip_nulls("last", params))
