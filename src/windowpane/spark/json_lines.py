"""JSON objects to columns of a declared schema, a whole batch of them at a time, with Spark's notion of a bad record.

Arrow's parser takes a batch whole or not at all. What it does not take is split, down to a few records that are read
one by one: a record that Spark would call corrupt is bad, and the others are good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from windowpane.spark.json_records import RecordReader

CHUNK_BYTES = 64 * 1024 * 1024
BLOCK_RECORDS = 65_536
SPLIT, FEW_RECORDS = 8, 32
"""Into how many parts a block is split that has a bad record, and how many records are read one by one."""
_BRACES = b"{}"


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema, one row for each record, and the text of those that are bad (NULL for good ones)."""

    columns: pa.RecordBatch
    bad: pa.Array


def decode(records: pa.Array, schema: pa.Schema, *, messages: bool = False) -> Decoded:
    """Read records (binary, UTF-8).

    Lines of files: an empty one has NULL in every column, and is good. `messages`: as Spark's `from_json` reads them.
    One that is absent, empty or not UTF-8 is bad, and what is no text is written anew where a text is declared.
    """
    if messages and records.null_count:
        return _with_absent(decode(records.drop_null(), schema, messages=True), records)
    read = RecordReader(schema, messages=messages)
    parts = [
        part
        for low in range(0, len(records), BLOCK_RECORDS)
        for part in _decoded(records.slice(low, BLOCK_RECORDS), schema, read)
    ]
    columns = pa.Table.from_batches([part.columns for part in parts], schema)
    bad = pa.chunked_array([part.bad for part in parts], pa.string()).combine_chunks()
    return Decoded(_one_batch(columns, schema), bad)


def _with_absent(present: Decoded, records: pa.Array) -> Decoded:
    """Among records that are there, those that are not: a compacted topic has many."""
    there = records.is_valid().to_numpy(zero_copy_only=False)
    numbers = pa.array(np.cumsum(there) - 1, mask=~there)
    bad = pc.if_else(records.is_valid(), present.bad.take(numbers), "")
    return Decoded(present.columns.take(numbers), bad)


def _decoded(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Iterator[Decoded]:
    whole = _by_arrow(records, schema)
    if whole is not None:
        yield Decoded(whole, pa.nulls(len(records), pa.string()))
    elif len(records) <= FEW_RECORDS:
        yield _one_by_one(records.to_pylist(), schema, read)
    else:
        step = -(-len(records) // SPLIT)
        for low in range(0, len(records), step):
            yield from _decoded(records.slice(low, step), schema, read)


def _by_arrow(records: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """All records at once; None when Arrow's parser does not take them as one object each.

    Each begins and ends with a brace, and between two of them is a line break, which no text holds: so an object ends
    where a record does, and as many objects as records are one each.
    """
    if records.null_count or not _braced(records) or not _is_utf8(records):
        return None
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records.cast(pa.large_binary()))
    table = parse(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer(), schema)
    if table is None or table.num_rows != len(records):
        return None
    return _one_batch(table, schema)


def _braced(records: pa.Array) -> bool:
    kind = np.int64 if pa.types.is_large_binary(records.type) else np.int32
    _, ends, data = records.buffers()
    if data is None:
        return False
    offsets = np.frombuffer(ends, kind)[records.offset : records.offset + len(records) + 1]
    if not (np.diff(offsets) > 0).all():
        return False
    signs = np.frombuffer(data, np.uint8)
    return bool((signs[offsets[:-1]] == _BRACES[0]).all() and (signs[offsets[1:] - 1] == _BRACES[1]).all())


def _is_utf8(records: pa.Array) -> bool:
    try:
        records.cast(pa.large_string() if pa.types.is_large_binary(records.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """Objects one after another; None when one of them is not of the schema."""
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    block = min(max(text.size + 1, 1 << 20), 1 << 28)
    try:
        table = pj.read_json(pa.BufferReader(text), pj.ReadOptions(use_threads=False, block_size=block), options)
    except pa.ArrowException:
        return None
    return None if any(_has_negative_zero(table.column(field.name)) for field in schema) else table


def _has_negative_zero(column: pa.ChunkedArray) -> bool:
    """Where Arrow has it, JSON may have had -0: to Spark an integer, and so no negative one."""
    if not pa.types.is_floating(column.type):
        return False
    values = column.to_numpy()
    return bool((np.signbit(values) & (values == 0)).any())


def _one_by_one(records: Sequence[bytes | None], schema: pa.Schema, read: RecordReader) -> Decoded:
    rows: list[dict[str, object]] = []
    bad: list[str | None] = []
    for record in records:
        found, good = read(record or b"")
        rows.append(found)
        bad.append(None if good else (record or b"").decode("utf-8", "replace"))
    return Decoded(pa.RecordBatch.from_pylist(rows, schema), pa.array(bad, pa.string()))


def read_file(path: str, schema: pa.Schema) -> Iterator[Decoded]:
    """The records of a file, one a line; compressed files by their names. Empty lines are no records."""
    with pa.input_stream(path, compression="detect") as file:
        rest = b""
        while chunk := file.read(CHUNK_BYTES):
            text = rest + chunk
            cut = text.rfind(b"\n") + 1
            rest = text[cut:]
            if cut:
                yield _lines(text[:cut], schema)
        if rest:
            yield _lines(rest, schema)


def _lines(text: bytes, schema: pa.Schema) -> Decoded:
    table = parse(pa.py_buffer(text), schema) if _broken_between_objects(text) else None
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    if table is not None and table.num_rows == count:
        return Decoded(_one_batch(table, schema), pa.nulls(count, pa.string()))
    pattern = r"\r\n|\n|\r" if b"\r" in text else r"\n"
    records = pc.split_pattern_regex(pa.array([text], pa.large_binary()), pattern).values
    return decode(records.filter(pc.not_equal(pc.binary_length(_trimmed(records)), 0)), schema)


def _broken_between_objects(text: bytes) -> bool:
    """Whether a line ends where an object does: then as many objects as lines are one each."""
    breaks = text.count(b"}\n{") + text.count(b"}\r\n{") + text.endswith(b"\n")
    return breaks == text.count(b"\n")


def _trimmed(records: pa.Array) -> pa.Array:
    return pc.ascii_trim_whitespace(records.cast(pa.large_string(), safe=False)).cast(pa.large_binary())


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    whole = table.select(schema.names).combine_chunks()
    return whole.to_batches()[0] if whole.num_rows else pa.RecordBatch.from_pylist([], schema)
