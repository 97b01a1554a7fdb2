"""Key columns of any type as numbers that are equal where keys are. NULL is a key, -0.0 is 0.0, all NaNs are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.physical import Bools, canonical_floats, numpy_dtype, physical, validity

_MAX_RADIX = 2**62
_DENSE_SLACK = 1024


@dataclass(frozen=True)
class KeyCodes:
    """Rows as numbers in [0, radix): equal keys, equal numbers. `dense`: numbered in order of first appearance."""

    codes: npt.NDArray[np.int64]
    radix: int
    dense: bool = False


def dense_limit(length: int) -> int:
    """Up to which radix a table over all codes is worth its memory, for so many rows."""
    return 2 * length + _DENSE_SLACK


def combine(left: KeyCodes, right: KeyCodes) -> KeyCodes:
    """Codes of pairs. Overwrites `left`."""
    if left.radix == 1 or right.radix == 1:
        return right if left.radix == 1 else left
    if left.radix * right.radix >= _MAX_RADIX:
        left, right = densify(left), densify(right)
    # In place: fresh memory costs as much as the arithmetic, and codes belong to whoever combines them.
    codes = left.codes
    codes *= right.radix
    codes += right.codes
    return KeyCodes(codes, left.radix * right.radix)


def densify(codes: KeyCodes) -> KeyCodes:
    """The same rows, numbered in order of first appearance."""
    return codes if codes.dense else _encode(pa.array(codes.codes))


def _encode(array: pa.Array) -> KeyCodes:
    """Codes through Arrow's hash table, which numbers values, NULL among them, as they appear."""
    encoded = array.dictionary_encode(null_encoding="encode")
    return KeyCodes(physical(encoded.indices).astype(np.int64), max(len(encoded.dictionary), 1), dense=True)


def key_codes(key: pa.Array) -> list[KeyCodes]:
    """Codes of one key column; a struct gives one for itself and one per field."""
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if pa.types.is_dictionary(key.type):
        key = key.cast(key.type.value_type)
    if pa.types.is_null(key.type):
        return [KeyCodes(np.zeros(len(key), np.int64), 1)]
    if pa.types.is_struct(key.type):
        fields = [part for field in key.flatten() for part in key_codes(field)]
        return [key_codes(key.is_valid())[0], *fields]
    if pa.types.is_floating(key.type):
        return [_float_codes(key)]
    if numpy_dtype(key.type) is not None:
        return [_integer_codes(key)]
    return [_encode(key)]


def _float_codes(key: pa.Array) -> KeyCodes:
    plain = canonical_floats(physical(key))
    bits = plain.view(np.dtype(f"i{plain.dtype.itemsize}"))
    valid = validity(key)
    return _encode(pa.array(bits, mask=None if valid is None else ~valid))


def _integer_codes(key: pa.Array) -> KeyCodes:
    """Codes by distance from the smallest value where the range is small, else by hashing."""
    values, valid = physical(key), validity(key)
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    present = values if valid is None else values[valid]
    if not len(present):
        return KeyCodes(np.zeros(len(key), np.int64), 1)
    low, high = int(present.min()), int(present.max())
    if high - low + 2 > dense_limit(len(key)):
        return _encode(pa.array(values, mask=_not(valid)))
    codes = np.subtract(values, low, dtype=np.int64)
    if valid is None:
        return KeyCodes(codes, high - low + 1)
    return KeyCodes(np.where(valid, codes, high - low + 1), high - low + 2)


def _not(valid: Bools | None) -> Bools | None:
    return None if valid is None else ~valid
