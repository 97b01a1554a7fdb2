"""DISTINCT for any aggregate: a group's distinct arguments are kept as a set, and folded when evaluated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Accumulator, Evaluated, Inputs
from windowpane.core.accumulators.collect import CollectAccumulator
from windowpane.core.accumulators.kernels.columns import Int64s, all_valid, flatten_lists, lists_from
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups, group_rows


class DistinctAccumulator:
    """Wraps the accumulator of the same call without DISTINCT. Rows with a NULL among the arguments are skipped.

    `ordered` also keeps the order of values by (ts, arrival), for functions whose result depends on it.
    """

    def __init__(self, function: str, inner: Accumulator, types: Sequence[pa.DataType], *, ordered: bool) -> None:
        for type_ in types:
            require(f"{function}(DISTINCT …)", type_, is_orderable, ORDERABLE)
        self._inner = inner
        self._set = CollectAccumulator(types, distinct=True) if ordered else _ValueSets(types)
        self.output_type = inner.output_type
        self.state_types: Sequence[pa.DataType] = self._set.state_types
        self.arrival_states: Sequence[int] = self._set.arrival_states

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        return self._set.update(inputs, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        return self._set.merge(states, groups)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        inputs, parents = self._set.collected(states)
        return self._inner.evaluate(self._inner.update(inputs, Groups(parents, len(states[0]))))


class _ValueSets:
    """Sets of values without their order: one list column per argument."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.state_types: Sequence[pa.DataType] = tuple(pa.list_(type_) for type_ in types)
        self.arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        valid, args = all_valid(inputs.args), inputs.args
        if valid is not None:
            rows = np.flatnonzero(valid)
            args, groups = [arg.take(pa.array(rows)) for arg in args], groups.take(rows)
        return _sets(args, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        inputs, parents = self.collected(states)
        return _sets(inputs.args, Groups(groups.ids[parents], groups.count))

    def collected(self, states: Sequence[pa.Array]) -> tuple[Inputs, Int64s]:
        """The content of the states as rows in any order, and the state of each row."""
        parents = flatten_lists(states[0])[1]
        nowhere = np.zeros(len(parents), np.int64)
        return Inputs([flatten_lists(state)[0] for state in states], nowhere, nowhere), parents


def _sets(args: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
    _, first = group_rows([pa.array(groups.ids), *args], len(groups.ids))
    distinct = groups.take(first)
    rows = pa.array(first[distinct.order])
    return [lists_from(arg.take(rows), distinct.sizes) for arg in args]
