"""Stable hashes of key columns, which decide on the shard of a group: equal on every machine, in every run and version.

Equal keys hash equal: -0.0 as 0.0, all NaNs alike, NULL as a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

_NULL = np.uint64(0x6E756C6C)
_FACTOR = 0x9E3779B97F4A7C15 | 1
_INVERSE = pow(_FACTOR, -1, 2**64)


def shard_of(keys: Sequence[pa.Array], length: int, shards: int) -> Int64s:
    """The shard of each row, in [0, shards). Without keys all rows belong to shard 0."""
    if not keys or shards == 1:
        return np.zeros(length, np.int64)
    return (hash_rows(keys, length) % np.uint64(shards)).astype(np.int64)


def hash_rows(keys: Sequence[pa.Array], length: int) -> UInt64s:
    """A hash of each row's keys; 0 without keys."""
    mixed = np.zeros(length, np.uint64)
    for key in keys:
        mixed = mix(mixed ^ _hash_column(key))
    return mixed


def distinct(hashes: UInt64s) -> UInt64s:
    """Ordered hashes, each once."""
    is_new: npt.NDArray[np.bool_] = np.append([True], hashes[1:] != hashes[:-1])
    found: UInt64s = hashes[is_new[: len(hashes)]]
    return found


def mix(values: UInt64s) -> UInt64s:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hash_column(column: pa.Array) -> UInt64s:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_struct(column.type):
        hashed = np.zeros(len(column), np.uint64)
        for part in column.flatten():
            hashed = mix(hashed ^ _hash_column(part))
    else:
        hashed = _hash_values(column)
    if column.null_count:
        hashed = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashed)
    return hashed


def _hash_values(column: pa.Array) -> UInt64s:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_decimal(kind):
        return _hash_texts(column.cast(pa.string()))
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)):
        return _hash_texts(column)
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int64()) if kind.bit_width == 64 else column.cast(pa.int32()).cast(pa.int64())
    whole = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(whole).view(np.uint64)


def _hash_texts(column: pa.Array) -> UInt64s:
    """Each distinct value is hashed once."""
    encoded = pc.fill_null(column.cast(pa.large_binary()), b"").dictionary_encode()
    hashed: UInt64s = _hash_bytes(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
    return hashed


def _hash_bytes(column: pa.Array) -> UInt64s:
    """A polynomial over each value's bytes, for all values at once: differences of one running sum.

    The powers in front of a value are divided away by the factor's inverse modulo 2**64, so position does not matter.
    """
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, len(column) + 1, column.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(data, np.uint8, last)[first:] if data is not None else np.zeros(0, np.uint8)
    powers = _powers(_FACTOR, len(content) + 1)
    terms = (content.astype(np.uint64) + np.uint64(1)) * powers[:-1]
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
    low, high = offsets[:-1] - first, offsets[1:] - first
    inverse = _powers(_INVERSE, len(content) + 1)
    hashed: UInt64s = (running[high] - running[low]) * inverse[low] ^ (high - low).astype(np.uint64)
    return hashed


def _powers(base: int, count: int) -> UInt64s:
    powers = np.full(count, base, np.uint64)
    powers[0] = 1
    accumulated: UInt64s = np.multiply.accumulate(powers)
    return accumulated
