"""Between Arrow columns and numpy: physical values with NULLs as a mask, lists as flat values, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.groups import Groups
from windowpane.core.physical import Bools, Values, canonical_floats, numpy_dtype, physical, validity

Int64s: TypeAlias = npt.NDArray[np.int64]
Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = [
    "Bools",
    "Float64s",
    "Int64s",
    "Values",
    "all_valid",
    "canonical_floats",
    "flatten_lists",
    "lists_from",
    "numpy_dtype",
    "physical",
    "present_rows",
    "to_arrow",
    "validity",
]


def to_arrow(values: Values, type_: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """A column of `type_` from its physical values, NULL where `valid` is False."""
    dtype = numpy_dtype(type_)
    mask = None if valid is None or valid.all() else ~valid
    plain = pa.array(np.ascontiguousarray(values, dtype), mask=mask)
    return plain if plain.type == type_ else plain.view(type_)


def all_valid(arrays: Sequence[pa.Array]) -> Bools | None:
    """True for rows in which none of the columns is NULL; None when that is all rows."""
    masks = [mask for mask in map(validity, arrays) if mask is not None]
    return np.logical_and.reduce(masks) if masks else None


def present_rows(array: pa.Array, groups: Groups) -> tuple[Values, Groups]:
    """Physical values that are not NULL, and their groups."""
    values, valid = physical(array), validity(array)
    if valid is None:
        return values, groups
    rows = np.flatnonzero(valid)
    return values[rows], groups.take(rows)


def flatten_lists(lists: pa.Array) -> tuple[pa.Array, Int64s]:
    """All elements of a list column, and for each the row it is from."""
    return lists.flatten(), physical(pc.list_parent_indices(lists)).astype(np.int64)


def lists_from(values: pa.Array, sizes: Int64s) -> pa.Array:
    """A list column of consecutive runs of `values`."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(values.type))
