"""User aggregates: a class that handles one group, adapted to columns by a loop over groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import AggregateFunction, Bools, Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import all_valid
from windowpane.core.accumulators.kernels.time_order import ordered_rows
from windowpane.core.accumulators.types import is_numeric, require, spark_name
from windowpane.core.groups import Groups
from windowpane.errors import WindowpaneError


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


_FAILED = object()
"""The state of a group for which the user's code has raised."""


class UserAccumulator:
    """A UserAggregate as the core calls it.

    `guarded`: what the aggregate raises concerns only the group it is raised for, whose result is an error row. One
    more state column says which groups have failed. Otherwise an exception stops the query.
    """

    def __init__(self, aggregate: UserAggregate, types: Sequence[pa.DataType], *, guarded: bool = False) -> None:
        for given, declared in zip(types, aggregate.input_types, strict=True):
            require(aggregate.name, given, _castable_to(declared), spark_name(declared))
        self._aggregate, self._guarded = aggregate, guarded
        self.output_type = aggregate.output_type
        self._own_types = tuple(aggregate.state_types)
        self.state_types: Sequence[pa.DataType] = (*self._own_types, pa.bool_()) if guarded else self._own_types
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
        return self._columns([self._merged(held[low:high]) for low, high in _bounds(groups)])

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        results = [self._run(self._aggregate.evaluate, state) for state in self._states(states)]
        values, failed = self._column(results, self.output_type)
        return Evaluated(values, failed=failed)

    def _merged(self, held: Sequence[object]) -> object:
        if not held:
            nothing = [pa.array([], declared) for declared in self._aggregate.input_types]
            return self._run(self._aggregate.update, *nothing)
        return reduce(lambda left, right: self._run(self._aggregate.merge, left, right), held)

    def _states(self, columns: Sequence[pa.Array]) -> list[object]:
        own = [column.to_pylist() for column in columns[: len(self._own_types)]]
        found: list[object] = list(own[0]) if len(own) == 1 else list(zip(*own, strict=True))
        if not self._guarded:
            return found
        return [_FAILED if bad else state for state, bad in zip(found, columns[-1].to_pylist(), strict=True)]

    def _columns(self, states: Sequence[object]) -> list[pa.Array]:
        if len(self._own_types) == 1:
            found = [self._column(states, self._own_types[0])]
        else:
            found = [
                self._column([state if state is _FAILED else _part(state, index) for state in states], kind)
                for index, kind in enumerate(self._own_types)
            ]
        arrays = [values for values, _ in found]
        if self._guarded:
            arrays.append(pa.array(np.logical_or.reduce([failed for _, failed in found])))
        return arrays

    def _column(self, values: Sequence[object], kind: pa.DataType) -> tuple[pa.Array, Bools]:
        """Values in Arrow, and which of them there are none of: their group has failed."""
        failed = np.array([value is _FAILED for value in values], np.bool_)
        given = [None if value is _FAILED else value for value in values]
        try:
            return pa.array(given, kind), failed
        except Exception as error:
            if not self._guarded:
                raise self._failure("evaluate", error) from error
        fits = [self._run(pa.array, [value], kind) for value in given]
        failed |= np.array([each is _FAILED for each in fits], np.bool_)
        return pa.array([None if bad else value for value, bad in zip(given, failed, strict=True)], kind), failed

    def _run(self, step: Callable[..., object], *args: object) -> object:
        if any(given is _FAILED for given in args):
            return _FAILED
        try:
            return step(*args)
        except Exception as error:
            if self._guarded:
                return _FAILED
            raise self._failure(step.__name__, error) from error

    def _failure(self, step: str, error: Exception) -> WindowpaneError:
        text = f"`{self._aggregate.name}` failed in `{step}`: {type(error).__name__}: {error}"
        return WindowpaneError("USER_AGGREGATE_FAILED", text)


def _part(state: object, index: int) -> object:
    """One of the values of a state that has several."""
    return state[index]  # type: ignore[index]  # several: tuples


def _castable_to(declared: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda given: given == declared or (is_numeric(given) and is_numeric(declared))


def _bounds(groups: Groups) -> list[tuple[int, int]]:
    return list(pairwise(groups.offsets.tolist()))


_classes: dict[str, type[UserAggregate]] = {}


def user_classes() -> list[type[UserAggregate]]:
    """The classes of all user aggregates that have been registered."""
    return list(_classes.values())


def as_function(aggregate: type[UserAggregate], name: str | None = None, *, guarded: bool = False) -> AggregateFunction:
    """The registry's line for a user's class. `guarded`: what it raises is an error row of its group."""
    count = len(aggregate.input_types) + aggregate.params
    _classes[name or aggregate.name] = aggregate

    def build(types: Sequence[pa.DataType], params: Sequence[object]) -> UserAccumulator:
        return UserAccumulator(aggregate(*params), types, guarded=guarded)

    return AggregateFunction(
        name or aggregate.name, count, count, build, params=aggregate.params, incremental=aggregate.incremental,
        cut_matters=True,
    )  # fmt: skip
