"""Values of any orderable type as numbers in the same order, and back. NaN is the largest float, -0.0 is 0.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.kernels.columns import (
    Bools,
    Int64s,
    Values,
    canonical_floats,
    numpy_dtype,
    physical,
    to_arrow,
    validity,
)
from windowpane.core.accumulators.types import is_boolean, is_float


@dataclass(frozen=True)
class OrderKeys:
    """`keys[i]` orders row i as its value does; undefined where `valid` is False."""

    keys: Values
    valid: Bools | None
    restore: Callable[[Values, Bools], pa.Array]
    """Values from keys, NULL where the mask is False."""


def order_keys(array: pa.Array) -> OrderKeys:
    """Keys that hold for this column only: those of two columns cannot be compared."""
    type_, valid = array.type, validity(array)
    if is_boolean(type_):
        return OrderKeys(physical(array).view(np.uint8), valid, lambda keys, ok: to_arrow(keys != 0, type_, ok))
    if is_float(type_):
        return OrderKeys(canonical_floats(physical(array)), valid, lambda keys, ok: to_arrow(keys, type_, ok))
    if numpy_dtype(type_) is not None:
        return OrderKeys(physical(array), valid, lambda keys, ok: to_arrow(keys, type_, ok))
    return _ranked(array, valid)


def _ranked(array: pa.Array, valid: Bools | None) -> OrderKeys:
    encoded = array.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ascending = encoded.dictionary.take(order)
    ranks = np.zeros(max(len(order), 1), np.int64)
    ranks[physical(order)] = np.arange(len(order))
    codes = physical(encoded.indices)
    keys = ranks[codes if valid is None else np.where(valid, codes, 0)]

    def restore(keys: Values, ok: Bools) -> pa.Array:
        return ascending.take(pa.array(np.where(ok, keys, 0).astype(np.int64), mask=~ok))

    return OrderKeys(keys, valid, restore)


@dataclass(frozen=True)
class Extreme:
    """The function that keeps the larger (or smaller) of two keys, and what it starts from."""

    ufunc: np.ufunc
    start: float


def extreme_of(dtype: np.dtype[Any], *, largest: bool) -> Extreme:
    """For floats: maximum lets NaN through and fmin does not, which is what makes NaN the largest."""
    if np.issubdtype(dtype, np.floating):
        return Extreme(np.maximum, -np.inf) if largest else Extreme(np.fmin, np.nan)
    limits = np.iinfo(dtype)
    return Extreme(np.maximum, limits.min) if largest else Extreme(np.minimum, limits.max)


def sortable_integers(array: pa.Array) -> Int64s:
    """int64 numbers in the order of the values, equal where they are; undefined where they are NULL."""
    keys = order_keys(array).keys
    if not np.issubdtype(keys.dtype, np.floating):
        return keys.astype(np.int64, copy=False)
    # The bits of a float order it among its sign; negative ones run backwards.
    bits = canonical_floats(keys.astype(np.float64)).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
