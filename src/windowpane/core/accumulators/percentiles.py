"""median, percentile, percentile_cont (interpolated) and percentile_disc, exact. State is every value, as doubles."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs, WithinGroup
from windowpane.core.accumulators.floats import as_doubles
from windowpane.core.accumulators.kernels.columns import Float64s, Int64s, flatten_lists, lists_from, physical, validity
from windowpane.core.accumulators.types import NUMERIC, is_numeric, require
from windowpane.core.groups import Groups
from windowpane.errors import PlanError


class PercentileAccumulator:
    """One or, when `as_list`, several percentiles. `discrete` ones are values of the input."""

    def __init__(
        self, fractions: Sequence[float], *, as_list: bool, discrete: bool = False, descending: bool = False
    ) -> None:
        self.output_type = pa.list_(pa.float64()) if as_list else pa.float64()
        self.state_types: Sequence[pa.DataType] = (pa.list_(pa.float64()),)
        self.arrival_states: Sequence[int] = ()
        self._fractions, self._as_list = fractions, as_list
        self._discrete, self._descending = discrete, descending

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = as_doubles(inputs.args[0]), validity(inputs.args[0])
        if valid is not None:
            values, groups = values[valid], Groups(groups.ids[valid], groups.count)
        return [lists_from(pa.array(values[groups.order]), groups.sizes)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, parents = flatten_lists(states[0])
        merged = Groups(groups.ids[parents], groups.count)
        return [lists_from(values.take(pa.array(merged.order)), merged.sizes)]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        values, parents = flatten_lists(states[0])
        doubles, sizes = physical(values), np.bincount(parents, minlength=len(states[0]))
        ordered = doubles[np.lexsort((doubles, parents))]
        if self._descending:
            ordered = doubles[np.lexsort((doubles, -parents))][::-1]
        starts = np.cumsum(sizes) - sizes
        pick = _stepped if self._discrete else _interpolated
        columns = [pick(ordered, starts, sizes, fraction) for fraction in self._fractions]
        return Evaluated(interleaved([pa.array(column) for column in columns], sizes, as_list=self._as_list))


def _interpolated(ascending: Float64s, starts: Int64s, sizes: Int64s, fraction: float) -> Float64s:
    if len(ascending) == 0:
        return np.zeros(len(sizes))
    position = np.maximum(sizes - 1, 0) * fraction
    lower, upper = np.floor(position), np.ceil(position)
    last = len(ascending) - 1
    below = ascending[np.minimum(starts + lower.astype(np.int64), last)]
    above = ascending[np.minimum(starts + upper.astype(np.int64), last)]
    with np.errstate(invalid="ignore"):
        between = (upper - position) * below + (position - lower) * above
    return np.where((lower == upper) | (below == above), below, between)


def _stepped(ordered: Float64s, starts: Int64s, sizes: Int64s, fraction: float) -> Float64s:
    """The first value whose position reaches the fraction."""
    if len(ordered) == 0:
        return np.zeros(len(sizes))
    place = np.maximum(np.ceil(sizes * fraction).astype(np.int64) - 1, 0)
    found: Float64s = ordered[np.minimum(starts + place, len(ordered) - 1)]
    return found


def interleaved(columns: Sequence[pa.Array], sizes: Int64s, *, as_list: bool) -> pa.Array:
    """Results of groups with rows: the only column, or all columns as one list per group. NULL for empty groups."""
    present = sizes > 0
    rows = np.where(present, np.arange(len(sizes)), -1)
    if not as_list:
        return columns[0].take(pa.array(rows, mask=~present))
    count, width = len(sizes), len(columns)
    picks = (np.arange(width) * count + np.flatnonzero(present)[:, None]).ravel()
    values = pa.concat_arrays(columns).take(pa.array(picks))
    offsets = np.concatenate([[0], np.cumsum(present * width)]).astype(np.int32)
    mask = pa.array(~present) if not present.all() else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(values.type), mask=mask)


def fractions_of(function: str, param: object) -> tuple[list[float], bool]:
    """The fractions of a percentile call, and whether they were written as an array."""
    as_list = isinstance(param, list | tuple)
    written = list(param) if isinstance(param, list | tuple) else [param]
    fractions = [_fraction(function, each) for each in written]
    if not fractions:
        raise PlanError("AGGREGATE_PARAM", f"`{function}` needs at least one percentage", "write array(0.5, 0.9)")
    return fractions, as_list


def _fraction(function: str, written: object) -> float:
    if isinstance(written, int | float | Decimal) and not isinstance(written, bool) and 0 <= written <= 1:
        return float(written)
    raise PlanError(
        "AGGREGATE_PARAM", f"`{written}` is not a percentage for `{function}`", "write a number from 0.0 to 1.0"
    )


def build_median(types: Sequence[pa.DataType], params: Sequence[object]) -> PercentileAccumulator:  # noqa: ARG001
    require("median", types[0], is_numeric, NUMERIC)
    return PercentileAccumulator([0.5], as_list=False)


def build_percentile(types: Sequence[pa.DataType], params: Sequence[object]) -> PercentileAccumulator:
    require("percentile", types[0], is_numeric, NUMERIC)
    fractions, as_list = fractions_of("percentile", params[0])
    return PercentileAccumulator(fractions, as_list=as_list)


def build_percentile_cont(types: Sequence[pa.DataType], params: Sequence[object]) -> PercentileAccumulator:
    return _within_group("percentile_cont", types, params, discrete=False)


def build_percentile_disc(types: Sequence[pa.DataType], params: Sequence[object]) -> PercentileAccumulator:
    return _within_group("percentile_disc", types, params, discrete=True)


def _within_group(
    name: str, types: Sequence[pa.DataType], params: Sequence[object], *, discrete: bool
) -> PercentileAccumulator:
    require(name, types[0], is_numeric, NUMERIC)
    fractions, as_list = fractions_of(name, params[0])
    descending = any(isinstance(param, WithinGroup) and param.descending[0] for param in params)
    return PercentileAccumulator(fractions, as_list=as_list, discrete=discrete, descending=descending)
