"""Sums of doubles that depend neither on the order of rows nor on how they are divided into batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.base import Evaluated, Inputs
from windowpane.core.accumulators.decimals import doubles_from
from windowpane.core.accumulators.kernels import exact_floats
from windowpane.core.accumulators.kernels.columns import (
    Bools,
    Float64s,
    Int64s,
    flatten_lists,
    physical,
    to_arrow,
    validity,
)
from windowpane.core.accumulators.kernels.ranges import range_counts
from windowpane.core.groups import Groups

_HUGE = 2.0**900
GROWTH_BITS = 200
"""`huge` holds values times 2 to the minus this."""
_SHRINK = 2.0**-GROWTH_BITS
_GROW = 2.0**GROWTH_BITS


class FloatSumAccumulator:
    """sum over FLOAT and DOUBLE.

    State: `special`, the IEEE sum of NaNs and infinities (0 when there are none, NULL before the first value); `parts`,
    doubles whose exact total is the sum of the finite values; `huge`, the same for values from 2**900 on, times
    2**-200, so that sums may leave the range of doubles and come back.
    """

    output_type = pa.float64()
    state_types: Sequence[pa.DataType] = (pa.float64(), pa.list_(pa.float64()), pa.list_(pa.float64()))
    arrival_states: Sequence[int] = ()

    def update(self, inputs: Inputs, groups: Groups) -> list[pa.Array]:
        values, valid = as_doubles(inputs.args[0]), validity(inputs.args[0])
        if valid is not None:
            values, groups = values[valid], Groups(groups.ids[valid], groups.count)
        return fold_doubles(values, groups)

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        valid = validity(states[0])
        held = groups if valid is None else Groups(groups.ids[valid], groups.count)
        special = physical(states[0]) if valid is None else physical(states[0])[valid]
        parts, part_of = flatten_lists(states[1])
        huge, huge_of = flatten_lists(states[2])
        shrunk = (physical(huge), groups.ids[huge_of])
        summed = _fold_finite(physical(parts), Groups(groups.ids[part_of], groups.count), shrunk)
        return [to_arrow(_special_sums(special, held), pa.float64(), held.sizes > 0), *summed]

    def evaluate(self, states: Sequence[pa.Array]) -> Evaluated:
        return Evaluated(to_arrow(total_of(states), pa.float64(), validity(states[0])))

    def over_ranges(self, inputs: Inputs, low: Int64s, high: Int64s) -> list[pa.Array]:
        return fold_ranges([as_doubles(inputs.args[0])], validity(inputs.args[0]), low, high)


def as_doubles(array: pa.Array) -> Float64s:
    """Any numeric column as doubles; undefined where it is NULL."""
    if pa.types.is_decimal(array.type):
        return doubles_from(array)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return physical(array).astype(np.float64, copy=False)


def fold_doubles(values: Float64s, groups: Groups) -> list[pa.Array]:
    """The state of values none of which is NULL."""
    present, special = groups.sizes > 0, np.zeros(groups.count)
    if not np.isfinite(exact_floats.largest_magnitude(values)):
        special = _special_sums(values, groups)
        rows = np.flatnonzero(np.isfinite(values))
        values, groups = values[rows], groups.take(rows)
    none = (np.zeros(0), np.zeros(0, np.int64))
    return [to_arrow(special, pa.float64(), present), *_fold_finite(values, groups, none)]


def fold_ranges(columns: Sequence[Float64s], valid: Bools | None, low: Int64s, high: Int64s) -> list[pa.Array]:
    """States of ranges of rows whose values are the sums of columns; only the first may hold what is not finite."""
    values = columns[0] if valid is None else np.where(valid, columns[0], 0.0)
    special = np.zeros(len(low))
    if not np.isfinite(exact_floats.largest_magnitude(values)):
        special = _range_specials(values, low, high)
        values = np.where(np.isfinite(values), values, 0.0)
    huge: list[Float64s] = []
    if exact_floats.largest_magnitude(values) >= _HUGE:
        large = np.abs(values) >= _HUGE
        huge = exact_floats.range_sums(np.where(large, values, 0.0) * _SHRINK, low, high)
        values = np.where(large, 0.0, values)
    parts = [part for column in (values, *columns[1:]) for part in exact_floats.range_sums(column, low, high)]
    present = range_counts(valid, low, high) > 0
    return [to_arrow(special, pa.float64(), present), *(exact_floats.pack(each, len(low)) for each in (parts, huge))]


def total_of(states: Sequence[pa.Array]) -> Float64s:
    """The sum of each state as IEEE has it, rounded once; undefined where the state is NULL."""
    special, count = physical(states[0]), len(states[0])
    total = exact_floats.rounded(exact_floats.unpack(states[1]), count)
    if len(flatten_lists(states[2])[0]):
        total = _with_huge(states, total)
    return np.where(special != 0, special, total)


def _with_huge(states: Sequence[pa.Array], total: Float64s) -> Float64s:
    with np.errstate(over="ignore", invalid="ignore"):
        shrunk = exact_floats.distilled(exact_floats.unpack(states[2]))
        limit = exact_floats.rounded(shrunk, len(total)) * _GROW
        exact = exact_floats.rounded([*(part * _GROW for part in shrunk), *exact_floats.unpack(states[1])], len(total))
    return np.where(np.isfinite(exact), exact, limit)


def _special_sums(values: Float64s, groups: Groups) -> Float64s:
    rows = np.flatnonzero(~np.isfinite(values))
    return exact_floats.weighted_sums(values[rows], groups.take(rows))


def _fold_finite(values: Float64s, groups: Groups, shrunk: tuple[Float64s, Int64s]) -> list[pa.Array]:
    """The `parts` and `huge` columns of finite values. `shrunk`: values that are already scaled, with their groups."""
    if exact_floats.largest_magnitude(values) >= _HUGE:
        large = np.abs(values) >= _HUGE
        shrunk = (
            np.concatenate([shrunk[0], values[large] * _SHRINK]),
            np.concatenate([shrunk[1], groups.ids[large]]),
        )
        values, groups = values[~large], Groups(groups.ids[~large], groups.count)
    huge = exact_floats.group_sums(shrunk[0], Groups(shrunk[1], groups.count))
    parts = exact_floats.group_sums(values, groups)
    return [exact_floats.pack(parts, groups.count), exact_floats.pack(huge, groups.count)]


def _range_specials(values: Float64s, low: Int64s, high: Int64s) -> Float64s:
    kinds = ((np.isnan(values), np.nan), (np.isposinf(values), np.inf), (np.isneginf(values), -np.inf))
    found = [np.where(range_counts(mask, low, high) > 0, value, 0.0) for mask, value in kinds]
    with np.errstate(invalid="ignore"):
        total: Float64s = found[0] + found[1] + found[2]
    return total
