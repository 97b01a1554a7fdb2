"""histogram_numeric: at most `bins` pairs of a centre and a count, as of Ben-Haim and Tom-Tov, which Spark uses too.

State: the distinct values with their counts, so that the result does not depend on how rows come. Beyond TRACKED values
of a group, the nearest ones are merged.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.kernels.columns import (
    Float64s,
    Int64s,
    flatten_lists,
    lists_from,
    numpy_dtype,
    physical,
    to_arrow,
    validity,
)
from windowpane.core.accumulators.mode import counted
from windowpane.core.accumulators.types import NUMERIC, is_numeric, require
from windowpane.core.groups import Groups
from windowpane.errors import PlanError

TRACKED = 10_000
"""Distinct values of a group up to which nothing is merged before the result."""


class HistogramAccumulator:
    """Centres have the type of the values; a centre of integers is cut off to one."""

    def __init__(self, type_: pa.DataType, bins: int) -> None:
        self.output_type = pa.list_(pa.struct([("x", type_), ("y", pa.float64())]))
        self.state_types: Sequence[pa.DataType] = (pa.list_(pa.float64()), pa.list_(pa.int64()))
        self.arrival_states: Sequence[int] = ()
        self._type, self._bins = type_, bins

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = inputs.args[0], validity(inputs.args[0])
        if valid is not None:
            rows = np.flatnonzero(valid)
            values, groups = values.take(pa.array(rows)), groups.take(rows)
        centres = (
            values.cast(pa.float64())
            if pa.types.is_decimal(values.type)
            else pa.array(physical(values).astype(np.float64))
        )
        return self._bounded(counted(centres, np.ones(len(centres), np.int64), groups))

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, parents = flatten_lists(states[0])
        counts = physical(flatten_lists(states[1])[0])
        return self._bounded(counted(values, counts, Groups(groups.ids[parents], groups.count)))

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        centres, counts, sizes = _trimmed(states, self._bins)
        pairs = pa.StructArray.from_arrays(
            [self._typed(centres), pa.array(counts)], fields=list(self.output_type.value_type)
        )
        lists = lists_from(pairs, sizes).cast(self.output_type)
        return Evaluated(_or_null(lists, sizes))

    def _typed(self, centres: Float64s) -> pa.Array:
        kind = self._type
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return pa.array(centres).cast(kind, safe=False)
        dtype = np.int32 if pa.types.is_date32(kind) else numpy_dtype(kind)
        limits = np.iinfo(dtype)
        fits = centres < float(limits.max)  # the largest BIGINT is no float
        return to_arrow(np.where(fits, np.where(fits, centres, 0).astype(dtype), limits.max), kind)

    def _bounded(self, lists: Sequence[pa.Array]) -> list[pa.Array]:
        if max(np.diff(np.asarray(lists[0].offsets)), default=0) <= TRACKED:
            return list(lists)
        centres, counts, sizes = _trimmed(lists, TRACKED)
        return [lists_from(pa.array(centres), sizes), lists_from(pa.array(counts.astype(np.int64)), sizes)]


def _or_null(lists: pa.Array, sizes: Int64s) -> pa.Array:
    """NULL for a group without values."""
    return lists.take(pa.array(np.arange(len(sizes)), mask=sizes == 0))


def _trimmed(lists: Sequence[pa.Array], bins: int) -> tuple[Float64s, Float64s, Int64s]:
    """Centres in ascending order, counts, and how many there are in each group."""
    offsets = np.asarray(lists[0].offsets)
    values, counts = physical(lists[0].values).astype(np.float64), physical(lists[1].values).astype(np.float64)
    found = [_merged(values[low:high], counts[low:high], bins) for low, high in pairwise(offsets)]
    nothing = np.zeros(0)
    centres = np.concatenate([each for each, _ in found] or [nothing])
    totals = np.concatenate([each for _, each in found] or [nothing])
    return centres, totals, np.array([len(each) for each, _ in found], np.int64)


def _merged(values: Float64s, counts: Float64s, bins: int) -> tuple[Float64s, Float64s]:
    """The two nearest neighbours become one until there are few enough; of equally near ones, the first."""
    order = np.argsort(values, kind="stable")
    centres, totals = values[order].tolist(), counts[order].tolist()
    count = len(centres)
    if count <= bins:
        return values[order], counts[order]
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    gaps = [(_gap(centres[at], centres[at + 1]), at, at + 1) for at in range(count - 1)]
    heapq.heapify(gaps)
    gone, left = [False] * count, count
    while left > bins and gaps:
        gap, low, high = heapq.heappop(gaps)
        if gone[low] or gone[high] or after[low] != high or gap != _gap(centres[low], centres[high]):
            continue
        total = totals[low] + totals[high]
        centres[low] = (centres[low] * totals[low] + centres[high] * totals[high]) / total
        totals[low], gone[high], left = total, True, left - 1
        after[low] = after[high]
        if after[low] < count:
            before[after[low]] = low
            heapq.heappush(gaps, (_gap(centres[low], centres[after[low]]), low, after[low]))
        if before[low] >= 0:
            heapq.heappush(gaps, (_gap(centres[before[low]], centres[low]), before[low], low))
    kept = [at for at in range(count) if not gone[at]]
    return np.array([centres[at] for at in kept]), np.array([totals[at] for at in kept])


def _gap(low: float, high: float) -> float:
    """How far two centres are apart: infinities and NaNs are far from everything."""
    gap = high - low
    return gap if not math.isnan(gap) else math.inf


def _takes(type_: pa.DataType) -> bool:
    return is_numeric(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_)


def build_histogram_numeric(types: Sequence[pa.DataType], params: Sequence[object]) -> HistogramAccumulator:
    require("histogram_numeric", types[0], _takes, f"{NUMERIC}, DATE or TIMESTAMP")
    bins = params[0]
    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 2:
        message = f"`{bins}` is not a number of bins for `histogram_numeric`"
        raise PlanError("AGGREGATE_PARAM", message, "write a whole number from 2 up: histogram_numeric(x, 10)")
    return HistogramAccumulator(types[0], bins)
