"""Grouping: rows to dense group ids by key columns of any type. NULL is a group, -0.0 is 0.0, all NaNs are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bools: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[Any]

_MAX_RADIX = 2**62
_DENSE_SLACK = 1024
_CHUNK = 1 << 15
"""Rows at a time, so that what is done to them stays in the processor's cache."""
_BY_WIDTH = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True)
class Groups:
    """Dense group ids: `ids[i]` in [0, count) is the group of row i."""

    ids: npt.NDArray[np.int64]
    count: int

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Row numbers sorted by group, rows of one group in their own order."""
        return stable_order(self.ids, self.count)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many rows each group has."""
        return np.bincount(self.ids, minlength=self.count).astype(np.int64, copy=False)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """`order[offsets[g]:offsets[g+1]]` are the rows of group g."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @classmethod
    def sized(cls, ids: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Groups:
        """Groups whose sizes are known already."""
        groups = cls(ids, len(sizes))
        vars(groups)["sizes"] = sizes
        return groups

    def take(self, rows: npt.NDArray[np.int64]) -> Groups:
        """The same groups over a selection of rows (some may then have none)."""
        return Groups(self.ids[rows], self.count)


def stable_order(ids: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Rows sorted by ids in [0, count), equal ids in their own order.

    By 16 bits at a time, because only for those numpy's stable sort is a radix sort.
    """
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    shift = 16
    while count > 1 << shift:
        digits = (ids >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order


@dataclass(frozen=True)
class _Codes:
    """Rows as numbers in [0, radix): equal keys, equal numbers. `dense`: numbered in order of first appearance."""

    codes: npt.NDArray[np.int64]
    radix: int
    dense: bool = False


def group_rows(keys: Sequence[pa.Array], length: int) -> tuple[Groups, npt.NDArray[np.int64]]:
    """Groups of rows with equal keys, in order of first appearance, and the row at which each group appears first.

    Without keys all rows are one group (none when there are no rows).
    """
    if not keys or length == 0:
        count = min(length, 1)
        return Groups(np.zeros(length, np.int64), count), np.zeros(count, np.int64)
    codes = reduce(_combine, [part for key in keys for part in _key_codes(key)])
    if not codes.dense and codes.radix <= _dense_limit(length):
        return _number_by_lookup(codes)
    codes = _densify(codes)
    return Groups(codes.codes, codes.radix), _first_rows(codes.codes, codes.radix, codes.radix)


def _dense_limit(length: int) -> int:
    return 2 * length + _DENSE_SLACK


def _first_rows(codes: npt.NDArray[np.int64], radix: int, present: int) -> npt.NDArray[np.int64]:
    """The first row of each code, -1 for a code without rows; `present` codes have some.

    Rows are looked at only until all are found, and written only where a code is new.
    """
    first, found = np.full(radix, -1, np.int64), 0
    for begin in range(0, len(codes), _CHUNK):
        chunk = codes[begin : begin + _CHUNK]
        # Backwards, so that the first row of a code is the last to write.
        fresh = np.flatnonzero(first.take(chunk) < 0)[::-1]
        first[chunk[fresh]] = begin + fresh
        found += int(np.count_nonzero(first[chunk[fresh]] == begin + fresh))
        if found == present:
            break
    return first


def _number_by_lookup(codes: _Codes) -> tuple[Groups, npt.NDArray[np.int64]]:
    """Numbers codes of a small range through a table over the whole range, without hashing."""
    sizes = np.bincount(codes.codes, minlength=codes.radix)
    first = _first_rows(codes.codes, codes.radix, int(np.count_nonzero(sizes)))
    starts = np.zeros(int(first.max()) + 1, np.bool_)
    starts[first[first >= 0]] = True
    rows = np.flatnonzero(starts)
    in_order = codes.codes[rows]
    number = first
    number[in_order] = np.arange(len(rows))
    return Groups.sized(number.take(codes.codes), sizes[in_order]), rows


def _combine(left: _Codes, right: _Codes) -> _Codes:
    if left.radix == 1 or right.radix == 1:
        return right if left.radix == 1 else left
    if left.radix * right.radix >= _MAX_RADIX:
        left, right = _densify(left), _densify(right)
    # In place: fresh memory costs as much as the arithmetic, and codes belong to whoever combines them.
    codes = left.codes
    codes *= right.radix
    codes += right.codes
    return _Codes(codes, left.radix * right.radix)


def _densify(codes: _Codes) -> _Codes:
    return codes if codes.dense else _encode(pa.array(codes.codes))


def _encode(array: pa.Array) -> _Codes:
    """Codes through Arrow's hash table, which numbers values, NULL among them, as they appear."""
    encoded = array.dictionary_encode(null_encoding="encode")
    return _Codes(physical(encoded.indices).astype(np.int64), max(len(encoded.dictionary), 1), dense=True)


def _key_codes(key: pa.Array) -> list[_Codes]:
    """Codes of one key column; a struct gives one for itself and one per field."""
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if pa.types.is_dictionary(key.type):
        key = key.cast(key.type.value_type)
    if pa.types.is_null(key.type):
        return [_Codes(np.zeros(len(key), np.int64), 1)]
    if pa.types.is_struct(key.type):
        fields = [part for field in key.flatten() for part in _key_codes(field)]
        return [_key_codes(key.is_valid())[0], *fields]
    if pa.types.is_floating(key.type):
        return [_float_codes(key)]
    if numpy_dtype(key.type) is not None:
        return [_integer_codes(key)]
    return [_encode(key)]


def _float_codes(key: pa.Array) -> _Codes:
    plain = canonical_floats(physical(key))
    bits = plain.view(np.dtype(f"i{plain.dtype.itemsize}"))
    valid = validity(key)
    return _encode(pa.array(bits, mask=None if valid is None else ~valid))


def _integer_codes(key: pa.Array) -> _Codes:
    """Codes by distance from the smallest value where the range is small, else by hashing."""
    values, valid = physical(key), validity(key)
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    bounds = pc.min_max(key.cast(pa.uint8()) if pa.types.is_boolean(key.type) else pa.array(values, mask=_not(valid)))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return _Codes(np.zeros(len(key), np.int64), 1)
    if high - low + 2 > _dense_limit(len(key)):
        return _encode(pa.array(values, mask=_not(valid)))
    codes = np.subtract(values, low, dtype=np.int64)
    if valid is None:
        return _Codes(codes, high - low + 1)
    return _Codes(np.where(valid, codes, high - low + 1), high - low + 2)


def _not(valid: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    return None if valid is None else ~valid


@cache
def numpy_dtype(type_: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type with the same bits, None for types without a fixed width that numpy knows."""
    if pa.types.is_boolean(type_):
        return np.dtype(np.bool_)
    if pa.types.is_floating(type_) or pa.types.is_integer(type_):
        dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return dtype
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return np.dtype(_BY_WIDTH[type_.bit_width])
    return None


def physical(array: pa.Array) -> Values:
    """The values as numpy sees them; what stands at a NULL is undefined."""
    if pa.types.is_boolean(array.type):
        return physical(array.cast(pa.uint8())).view(np.bool_)
    dtype = numpy_dtype(array.type)
    if dtype is None:
        raise TypeError(f"{array.type} has no numpy form")
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def validity(array: pa.Array) -> Bools | None:
    """True where a value is; None when there are no NULLs."""
    return physical(array.is_valid()) if array.null_count else None


def canonical_floats(values: Values) -> Values:
    """The same floats with one zero and one NaN, so that equal values have equal bits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        plain: Values = values + values.dtype.type(0)
    unordered = np.isnan(plain)
    if unordered.any():
        plain[unordered] = np.nan
    return plain
