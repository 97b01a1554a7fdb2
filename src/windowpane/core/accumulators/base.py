"""Aggregates: pure functions over columns, whose state is in Arrow columns.

State has one row per group: a state table consists of keys and state columns, and states are merged by concatenating
them and folding again. `incremental` and `ranged` tell the planner which rewrites keep the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.groups import Groups

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Inputs:
    """Columns of one batch for one aggregate call: its arguments, and the order of rows for those that need it."""

    args: Sequence[pa.Array]
    ts: Int64s
    arrival: Int64s

    def take(self, rows: Int64s) -> Inputs:
        indices = pa.array(rows)
        return Inputs([arg.take(indices) for arg in self.args], self.ts[rows], self.arrival[rows])

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True)
class Evaluated:
    """Results, one per group; `overflow` marks the groups whose result does not fit its type (value NULL there)."""

    values: pa.Array
    overflow: Bools | None = None
    failed: Bools | None = None
    """The groups for which a user's code has raised (value NULL there)."""


class Accumulator(Protocol):
    """One aggregate call bound to the types of its arguments. Holds no state of its own."""

    output_type: pa.DataType

    @property
    def state_types(self) -> Sequence[pa.DataType]:
        """Arrow types of the state columns."""

    @property
    def arrival_states(self) -> Sequence[int]:
        """State columns with arrival numbers, int64 or lists of int64. Rows get their final numbers after they are
        folded: an offset is then added to these columns.
        """

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        """Fold rows into fresh state: one value per group and state column.

        `groups.ids[i]` is the group of row i; a group may have no rows (FILTER), and has then the empty state.
        """

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        """Fold states into states: the rows of `states` are states, `groups` says which belong together.

        Associative and, up to the last ulps of floats, commutative.
        """

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        """Results from states, one per row."""


class OneStateAccumulator:
    """Base of accumulators whose only state is the result so far: states are folded as rows are."""

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return [self.fold(inputs.args[0], groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return [self.fold(states[0], groups)]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(states[0])

    def fold(self, array: pa.Array, groups: Groups) -> pa.Array:
        """The result for each group."""
        raise NotImplementedError


class RangedAccumulator(Accumulator, Protocol):
    """An accumulator that can also aggregate many overlapping ranges of ordered rows at once (sliding windows)."""

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        """State columns for each range of rows [low[i], high[i]). Ranges may overlap, repeat, and be empty.

        The rows of a range stand in (ts, arrival) order.

        Exactly what `update` gives for the rows of the range (floats up to the last ulps; a NaN or an infinity
        touches only the ranges that contain it).
        """


@dataclass(frozen=True)
class WithinGroup:
    """The directions of WITHIN GROUP (ORDER BY …), one per sort key: the last parameter of a call that has the clause.

    The sort keys themselves are columns of the call.
    """

    descending: tuple[bool, ...] = ()
    nulls_first: tuple[bool, ...] = ()

    def __repr__(self) -> str:
        pairs = zip(self.descending, self.nulls_first, strict=True)
        keys = (f"{'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}" for down, first in pairs)
        return f"WITHIN GROUP ({', '.join(keys)})"


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate in the registry: what the binder needs to know, and how to build its accumulator.

    `min_args` and `max_args` count arguments as written, literals too. Those from position `max_args - params` on are
    the literals: `first(x, true)` is 1 to 2 arguments of which 1 is a parameter.
    """

    name: str
    min_args: int
    max_args: int
    build: Callable[[Sequence[pa.DataType], Sequence[object]], Accumulator]
    """From argument types and literal parameters (percentile's fraction). Raises PlanError when a type does not fit."""
    params: int = 0
    """How many of `max_args` are trailing literals; they are passed as parameters and not as columns."""
    incremental: bool = True
    """State is O(1) or a set per group: window and aggregation may be fused."""
    ranged: bool = False
    """The accumulator has `over_ranges`: a sliding window may be fused."""
    takes_distinct: bool = True
    parameters_change_result: bool = False
    """With parameters, the accumulator is another one, with neither `over_ranges` nor DISTINCT."""

    cut_matters: bool = False
    """The result depends on how rows were cut into partial accumulators, by more than the last ulps."""

    def has_ranges(self, params: Sequence[object]) -> bool:
        return self.ranged and not (self.parameters_change_result and params)
