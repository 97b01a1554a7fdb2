"""approx_top_k: the most frequent values with their counts, NULL among them.

State: values and counts, as in `mode`, but of a bounded number of values (Misra and Gries): beyond it, all counts are
lowered by the count of the first value that does not fit, and `lost` adds up what was subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.kernels.columns import Int64s, flatten_lists, lists_from, physical
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.accumulators.mode import counted
from windowpane.core.accumulators.types import ORDERABLE, is_orderable, require
from windowpane.core.groups import Groups
from windowpane.errors import PlanError

_DEFAULTS = (5, 10_000)


class TopKAccumulator:
    """Exact up to `tracked` values; beyond, a count is too high by at most the number of rows / `tracked`."""

    def __init__(self, type_: pa.DataType, number: int, tracked: int) -> None:
        self.output_type = pa.list_(pa.struct([("item", type_), ("count", pa.int64())]))
        self.state_types: Sequence[pa.DataType] = (pa.list_(type_), pa.list_(pa.int64()), pa.int64())
        self.arrival_states: Sequence[int] = ()
        self._number, self._tracked = number, tracked

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        ones = np.ones(len(inputs), np.int64)
        return self._bounded(counted(inputs.args[0], ones, groups), np.zeros(groups.count, np.int64))

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, parents = flatten_lists(states[0])
        counts = physical(flatten_lists(states[1])[0])
        lost = sum_by_group(physical(states[2]), groups)
        return self._bounded(counted(values, counts, Groups(groups.ids[parents], groups.count)), lost)

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        values, parents = flatten_lists(states[0])
        counts = physical(flatten_lists(states[1])[0])
        groups = Groups(parents, len(states[0]))
        order = _ranked(values, counts, groups)
        order = order[_places(order, groups) < self._number]
        estimates = pa.array(counts[order] + physical(states[2])[parents[order]])
        pairs = pa.StructArray.from_arrays(
            [values.take(pa.array(order)), estimates], fields=list(self.output_type.value_type)
        )
        return Evaluated(lists_from(pairs, np.minimum(groups.sizes, self._number)).cast(self.output_type))

    def _bounded(self, lists: Sequence[pa.Array], lost: Int64s) -> list[pa.Array]:
        """States of lists of values and of their counts."""
        values, parents = flatten_lists(lists[0])
        counts, groups = physical(flatten_lists(lists[1])[0]), Groups(parents, len(lost))
        if groups.sizes.max(initial=0) <= self._tracked:
            return [*lists, pa.array(lost)]
        order = _ranked(values, counts, groups)
        unfit = order[_places(order, groups) == self._tracked]
        lowered = np.zeros(groups.count, np.int64)
        lowered[parents[unfit]] = counts[unfit]
        counts = counts - lowered[parents]
        rows = np.flatnonzero(counts > 0)
        sizes = groups.take(rows).sizes
        kept = (values.take(pa.array(rows)), pa.array(counts[rows]))
        return [*(lists_from(column, sizes) for column in kept), pa.array(lost + lowered)]


def _ranked(values: pa.Array, counts: Int64s, groups: Groups) -> Int64s:
    """Rows by group, the most frequent value first; of equally frequent ones the smallest, NULL last."""
    absent = physical(values.is_null())
    keys = np.where(absent, 0, sortable_integers(values))
    return np.lexsort((keys, absent, -counts, groups.ids))


def _places(order: Int64s, groups: Groups) -> Int64s:
    """The place of each of the ranked rows in its group."""
    places: Int64s = np.arange(len(order)) - groups.offsets[groups.ids[order]]
    return places


def build_approx_top_k(types: Sequence[pa.DataType], params: Sequence[object]) -> TopKAccumulator:
    require("approx_top_k", types[0], is_orderable, ORDERABLE)
    sizes = [each for each in params if isinstance(each, int) and not isinstance(each, bool) and each > 0]
    if len(sizes) < len(params):
        message = f"`{', '.join(map(str, params))}` are not numbers of values for `approx_top_k`"
        raise PlanError("AGGREGATE_PARAM", message, "write approx_top_k(x, 5), or approx_top_k(x, 5, 10000)")
    number, tracked = [*sizes, *_DEFAULTS[len(sizes) :]]
    if tracked < number:
        message = f"`approx_top_k` cannot give {number} values of {tracked} that it tracks"
        raise PlanError("AGGREGATE_PARAM", message, "make the third argument at least as large as the second")
    return TopKAccumulator(types[0], number, tracked)
