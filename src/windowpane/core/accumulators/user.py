"""User aggregates: a class that handles one group, adapted to columns by a loop over groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import AggregateFunction, Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import all_valid
from windowpane.core.accumulators.kernels.time_order import ordered_rows
from windowpane.core.accumulators.types import is_numeric, require, spark_name
from windowpane.core.groups import Groups
from windowpane.errors import WindowpaneError

Result = TypeVar("Result")


class UserAggregate:
    """Base of users' aggregates. One instance serves all groups of a call, so it keeps nothing between calls.

    A state is what `update` returns: a Python value for one state type, a tuple for several.
    Literal arguments of the call are given to the constructor.
    """

    name: ClassVar[str]
    """What SQL calls it."""
    input_types: ClassVar[Sequence[pa.DataType]]
    """Types of the column arguments. Numbers of other types are cast, anything else is refused."""
    state_types: ClassVar[Sequence[pa.DataType]]
    output_type: ClassVar[pa.DataType]
    params: ClassVar[int] = 0
    """How many literal arguments follow the columns."""
    incremental: ClassVar[bool] = False
    """True when the size of the state does not grow with the rows."""
    skip_nulls: ClassVar[bool] = True
    """Rows with a NULL among the arguments never reach `update`."""

    def update(self, *values: pa.Array) -> object:
        """The state of a group from its rows in (event time, arrival) order, one array per argument; maybe no rows."""
        raise NotImplementedError

    def merge(self, left: object, right: object) -> object:
        """One state from two. Must be associative and commutative."""
        raise NotImplementedError

    def evaluate(self, state: object) -> object:
        """The result, None for NULL."""
        raise NotImplementedError


class UserAccumulator:
    """A UserAggregate as the core calls it."""

    def __init__(self, aggregate: UserAggregate, types: Sequence[pa.DataType]) -> None:
        for given, declared in zip(types, aggregate.input_types, strict=True):
            require(aggregate.name, given, _castable_to(declared), spark_name(declared))
        self._aggregate = aggregate
        self.output_type = aggregate.output_type
        self.state_types: Sequence[pa.DataType] = tuple(aggregate.state_types)
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        valid = all_valid(inputs.args) if self._aggregate.skip_nulls else None
        if valid is not None:
            kept = np.flatnonzero(valid)
            inputs, groups = inputs.take(kept), groups.take(kept)
        order = pa.array(ordered_rows(inputs.ts, inputs.arrival, groups))
        columns = [
            arg.take(order).cast(declared)
            for arg, declared in zip(inputs.args, self._aggregate.input_types, strict=True)
        ]
        states = [
            self._run(self._aggregate.update, *(column.slice(low, high - low) for column in columns))
            for low, high in _bounds(groups)
        ]
        return self._columns(states)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        order = pa.array(groups.order)
        held = self._states([state.take(order) for state in states])
        merged = [
            reduce(lambda left, right: self._run(self._aggregate.merge, left, right), held[low:high])
            if high > low
            else self._empty()
            for low, high in _bounds(groups)
        ]
        return self._columns(merged)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        results = [self._run(self._aggregate.evaluate, state) for state in self._states(states)]
        return Evaluated(self._run(pa.array, results, self.output_type))

    def _empty(self) -> object:
        nothing = [pa.array([], declared) for declared in self._aggregate.input_types]
        return self._run(self._aggregate.update, *nothing)

    def _states(self, columns: Sequence[pa.Array]) -> list[object]:
        if len(columns) == 1:
            return list(columns[0].to_pylist())
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def _columns(self, states: Sequence[object]) -> list[pa.Array]:
        if len(self.state_types) == 1:
            return [self._run(pa.array, states, self.state_types[0])]
        return [
            self._run(pa.array, [state[index] for state in states], type_)  # type: ignore[index]  # several: tuples
            for index, type_ in enumerate(self.state_types)
        ]

    def _run(self, step: Callable[..., Result], *args: object) -> Result:
        try:
            return step(*args)
        except Exception as error:
            text = f"`{self._aggregate.name}` failed in `{step.__name__}`: {type(error).__name__}: {error}"
            raise WindowpaneError("USER_AGGREGATE_FAILED", text) from error


def _castable_to(declared: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda given: given == declared or (is_numeric(given) and is_numeric(declared))


def _bounds(groups: Groups) -> list[tuple[int, int]]:
    return list(pairwise(groups.offsets.tolist()))


def as_function(aggregate: type[UserAggregate]) -> AggregateFunction:
    """The registry's line for a user's class."""
    count = len(aggregate.input_types) + aggregate.params

    def build(types: Sequence[pa.DataType], params: Sequence[object]) -> UserAccumulator:
        return UserAccumulator(aggregate(*params), types)

    return AggregateFunction(
        aggregate.name, count, count, build, params=aggregate.params, incremental=aggregate.incremental
    )
