"""Parses JSON objects with Arrow, all records at once. Gives up on text that Arrow and Spark may read differently."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from windowpane.scan.decoded import nulls, one_batch

SHALLOW = 500
"""Levels of nesting that Arrow's recursive parser may see: a worker's stack is limited."""
_LONG_NUMBER = 334
"""Digits in a row. Spark's parser refuses numbers of more than 1,000 digits in three parts; Arrow's does not."""
_PIECE = 1 << 16
_BRACES = b"{}"
_ABSENT = pa.field("\x00", pa.string())
"""Stands in for an empty schema, so that Arrow still checks each record."""
_AFTER_NUMBER = np.frombuffer(b" \t\n\r\f\v,}]", np.uint8)
_INTEGER_ZERO = re.compile(rb"-0[\s,}\]]")


def by_arrow(records: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """The columns of all records; None unless Arrow parses each record as one object.

    Records begin and end with a brace and are joined by line breaks, which JSON strings cannot contain. No object
    therefore spans two records, and if there are as many objects as records, each record is one object.
    """
    if not len(records):
        return nulls(0, schema)
    if not braced(records).all() or not is_utf8(records) or deep(records).any():
        return None
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records.cast(pa.large_binary()))
    table = parse(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer(), schema)
    if table is None or table.num_rows != len(records):
        return None
    return one_batch(table, schema)


def edges(records: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The first and the last byte of each record; 0 for an empty one."""
    kind = np.int64 if pa.types.is_large_binary(records.type) else np.int32
    _, ends, data = records.buffers()
    offsets = np.frombuffer(ends, kind)[records.offset : records.offset + len(records) + 1]
    signs = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    filled = np.diff(offsets) > 0
    first = signs[np.minimum(offsets[:-1], len(signs) - 1)]
    return first * filled, signs[np.maximum(offsets[1:], 1) - 1] * filled


def braced(records: pa.Array) -> npt.NDArray[np.bool_]:
    """Marks records that begin and end with a brace."""
    first, last = edges(records)
    found: npt.NDArray[np.bool_] = (first == _BRACES[0]) & (last == _BRACES[1])
    return found


def deep(records: pa.Array) -> npt.NDArray[np.bool_]:
    """Marks records that may be nested too deeply for Arrow, by the number of their opening brackets."""
    found = pc.greater_equal(pc.binary_length(records), SHALLOW).to_numpy(zero_copy_only=False)
    if found.any():
        long = records.filter(pa.array(found))
        opened = pc.add(pc.count_substring(long, b"["), pc.count_substring(long, b"{"))
        found[found] = opened.to_numpy() >= SHALLOW
    marked: npt.NDArray[np.bool_] = found
    return marked


def is_utf8(records: pa.Array) -> bool:
    """Whether all records are UTF-8."""
    try:
        records.cast(pa.large_string() if pa.types.is_large_binary(records.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """Objects separated by white space; None if one does not fit the schema, or Spark may read one differently.

    The text must begin with a brace: Arrow 24 crashes on a bare `null`.
    """
    if _has_short_infinity(text) or _has_long_number(text):
        return None
    read = schema if len(schema) else pa.schema([_ABSENT])
    options = pj.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore")
    block = min(max(text.size + 1, 1 << 20), 1 << 28)
    try:
        table = pj.read_json(pa.BufferReader(text), pj.ReadOptions(use_threads=False, block_size=block), options)
    except pa.ArrowException:
        return None
    zero = any(_has_negative_zero(table.column(field.name)) for field in schema)
    return None if zero and _INTEGER_ZERO.search(text) else table


def _has_negative_zero(column: pa.ChunkedArray) -> bool:
    """Whether a column has -0.0: the text may then contain the integer -0, which Spark reads as 0.0."""
    if not pa.types.is_floating(column.type):
        return False
    values = column.to_numpy()
    return bool((np.signbit(values) & (values == 0)).any())


def _has_short_infinity(text: pa.Buffer) -> bool:
    """Whether the text may contain `Inf`, which only Arrow takes for a number. Pieces fit into a processor's cache."""
    signs = np.frombuffer(text, np.uint8)
    return any(_has_infinity(signs[at : at + _PIECE + 3]) for at in range(0, len(signs), _PIECE))


def _has_infinity(signs: npt.NDArray[np.uint8]) -> bool:
    begins = signs[:-3] == ord("I")
    if not begins.any():
        return False
    at = np.flatnonzero(begins)
    at = at[(signs[at + 1] == ord("n")) & (signs[at + 2] == ord("f"))]
    return bool(np.isin(signs[at + 3], _AFTER_NUMBER).any())


def _has_long_number(text: pa.Buffer) -> bool:
    """Whether the text may contain a number that is too long for Spark's parser."""
    step = _LONG_NUMBER // 2
    signs = np.frombuffer(text, np.uint8)
    sampled = _are_digits(signs[::step])
    doubtful = np.flatnonzero(sampled[1:] & sampled[:-1]) * step
    for between in (step // 2, step // 4, step // 3, 1, step - 1):
        doubtful = doubtful[_are_digits(signs[doubtful + between])]
    return any(bytes(memoryview(text)[at : at + step]).isdigit() for at in doubtful)


def _are_digits(signs: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (signs >= ord("0")) & (signs <= ord("9"))
    return found
