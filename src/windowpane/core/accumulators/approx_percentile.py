"""approx_percentile: a mergeable quantile summary without randomness, which keeps values of the input.

The quantile sketches of the available libraries are randomized, so that a replayed batch would give other results. This
one compacts like theirs, by levels of values that each stand for 2**level rows, and alternates instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.count import sum_by_group
from windowpane.core.accumulators.kernels.columns import Int64s, flatten_lists, lists_from, physical, validity
from windowpane.core.accumulators.kernels.ordering import sortable_integers
from windowpane.core.accumulators.percentiles import fractions_of, interleaved
from windowpane.core.accumulators.types import NUMERIC, is_boolean, is_orderable, is_text, require
from windowpane.core.groups import Groups
from windowpane.errors import PlanError

DEFAULT_ACCURACY = 10_000
_MIN_CAPACITY = 64
_DROPPED = -1


class QuantileAccumulator:
    """State: values and their levels. Exact up to `accuracy` values; beyond, each level of halving may shift a rank
    by one in `accuracy`, and shifts of neighbouring halvings cancel.
    """

    def __init__(self, type_: pa.DataType, fractions: Sequence[float], accuracy: int, *, as_list: bool) -> None:
        self.output_type = pa.list_(type_) if as_list else type_
        self.state_types: Sequence[pa.DataType] = (pa.list_(type_), pa.list_(pa.int8()))
        self.arrival_states: Sequence[int] = ()
        self._fractions, self._as_list = fractions, as_list
        self._capacity = max(accuracy, _MIN_CAPACITY)

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = inputs.args[0], validity(inputs.args[0])
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, groups = values.take(pa.array(rows)), groups.take(rows)
        return self._compacted(values, np.zeros(len(values), np.int64), groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, parents = flatten_lists(states[0])
        levels = physical(flatten_lists(states[1])[0]).astype(np.int64)
        return self._compacted(values, levels, Groups(groups.ids[parents], groups.count))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        values, parents = flatten_lists(states[0])
        weights = np.int64(1) << physical(flatten_lists(states[1])[0]).astype(np.int64)
        order = np.lexsort((sortable_integers(values), parents))
        reached = np.cumsum(weights[order])
        totals = sum_by_group(weights, Groups(parents, len(states[0])))
        before = np.cumsum(totals) - totals
        columns = []
        for fraction in self._fractions:
            ranks = np.maximum(np.ceil(totals * fraction).astype(np.int64), 1)
            found = np.searchsorted(reached, before + ranks)
            picks = np.where(totals > 0, np.append(order, 0)[found], -1)
            columns.append(values.take(pa.array(picks, mask=totals == 0)))
        return Evaluated(interleaved(columns, totals, as_list=self._as_list))

    def _compacted(self, values: pa.Array, levels: Int64s, groups: Groups) -> list[pa.Array]:
        keys = sortable_integers(values)
        totals = sum_by_group(np.int64(1) << levels, groups)
        level = 0
        while level <= levels.max(initial=_DROPPED):
            dropped, raised = self._halve(level, np.flatnonzero(levels == level), keys, groups, totals)
            levels[raised] += 1
            levels[dropped] = _DROPPED
            level += 1
        rows = np.flatnonzero(levels != _DROPPED)
        kept = groups.take(rows)
        order = rows[kept.order]
        return [
            lists_from(values.take(pa.array(order)), kept.sizes),
            lists_from(pa.array(levels[order].astype(np.int8)), kept.sizes),
        ]

    def _halve(self, level: int, rows: Int64s, keys: Int64s, groups: Groups, totals: Int64s) -> tuple[Int64s, Int64s]:
        """For groups with too many rows at this level: the rows to drop, and those that replace them one level up."""
        sizes = np.bincount(groups.ids[rows], minlength=groups.count)
        rows = rows[sizes[groups.ids[rows]] > self._capacity]
        ids = groups.ids[rows]
        rows = rows[np.lexsort((keys[rows], ids))]
        ids = groups.ids[rows]
        crowd = Groups(ids, groups.count)
        place = np.arange(len(rows)) - crowd.offsets[ids]
        paired = place < crowd.sizes[ids] // 2 * 2
        side = (totals // (self._capacity << level) + level) & 1
        kept = place % 2 == side[ids]
        return rows[paired & ~kept], rows[paired & kept]


def _takes(type_: pa.DataType) -> bool:
    return is_orderable(type_) and not is_boolean(type_) and not is_text(type_)


def build_approx_percentile(types: Sequence[pa.DataType], params: Sequence[object]) -> QuantileAccumulator:
    require("approx_percentile", types[0], _takes, f"{NUMERIC}, DATE or TIMESTAMP")
    fractions, as_list = fractions_of("approx_percentile", params[0])
    accuracy = params[1] if len(params) > 1 else DEFAULT_ACCURACY
    if not isinstance(accuracy, int) or isinstance(accuracy, bool) or accuracy < 1:
        raise PlanError(
            "AGGREGATE_PARAM",
            f"`{accuracy}` is not an accuracy for `approx_percentile`",
            f"write a whole number from 1 up; the default is {DEFAULT_ACCURACY}",
        )
    return QuantileAccumulator(types[0], fractions, accuracy, as_list=as_list)
