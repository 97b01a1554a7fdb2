"""JSON objects to columns of a declared schema, a block of them at a time, with Spark's notion of a bad record.

Arrow's parser takes a block whole or not at all. Where it does not, DuckDB says which records look good: those go to
Arrow once more, and the others are read one by one, exactly as Spark's `from_json` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from windowpane.spark.json_records import RecordReader

BLOCK_RECORDS = 65_536
FEW_RECORDS = 32
"""So many are read one by one without further ado."""
PART_RECORDS = 1024
"""Into parts of so many a block is split in which Arrow refuses what looks good."""
SHALLOW = 500
"""Arrow's parser calls itself for each level of nesting, and a worker has a stack of limited size."""
TOO_LONG = "longer than max_record_bytes"
HEAD_BYTES, HEAD_CHARACTERS = 400, 100
"""How much is kept of a record that is too long."""
_BRACES = b"{}"
_WHITE = " \t\r\n"
_INTEGERS, _NUMBERS = ("BIGINT", "UBIGINT"), ("BIGINT", "UBIGINT", "DOUBLE")


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema, one row for each record, and the text of those that are bad (NULL for good ones)."""

    columns: pa.RecordBatch
    bad: pa.Array


def decode(records: pa.Array, schema: pa.Schema, max_bytes: int | None = None) -> Decoded:
    """Read records (binary, UTF-8). One that is absent, empty, too long, not UTF-8 or no object is bad."""
    unread = records.is_null()
    if max_bytes is not None:
        unread = pc.or_(unread, pc.fill_null(pc.greater(pc.binary_length(records), max_bytes), False))
    if pc.any(unread).as_py():
        return _with_unread(records, unread, schema, max_bytes)
    read = RecordReader(schema)
    blocks = range(0, len(records), BLOCK_RECORDS)
    return _joined([_block(records.slice(low, BLOCK_RECORDS), schema, read) for low in blocks], schema)


def too_long(head: bytes, max_bytes: int) -> str:
    """What stands in place of the text of a record that is too long; `head` is its first HEAD_BYTES."""
    return f"{TOO_LONG} ({max_bytes}): {head.decode('utf-8', 'replace')[:HEAD_CHARACTERS]}"


def oversized(head: bytes, max_bytes: int, schema: pa.Schema) -> Decoded:
    """One record that is too long."""
    return Decoded(_nulls(1, schema), pa.array([too_long(head, max_bytes)], pa.string()))


def _with_unread(records: pa.Array, unread: pa.Array, schema: pa.Schema, max_bytes: int | None) -> Decoded:
    """The records that can be looked at, and between them those that are absent or too long."""
    there = pc.invert(unread).to_numpy(zero_copy_only=False)
    present = decode(records.filter(pc.invert(unread)), schema)
    heads = pc.binary_slice(records.filter(unread), 0, HEAD_BYTES).to_pylist()
    texts = pa.array(["" if head is None else too_long(head, max_bytes or 0) for head in heads], pa.string())
    others = Decoded(_nulls(len(heads), schema), texts)
    return _in_order(present, others, there, schema)


def _block(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Decoded:
    whole = _by_arrow(records, schema)
    if whole is not None:
        return Decoded(whole, pa.nulls(len(records), pa.string()))
    if len(records) <= FEW_RECORDS:
        return _one_by_one(records.to_pylist(), schema, read)
    likely = _likely(records, schema)
    good = pc.ascii_trim(records.filter(pa.array(likely)).cast(pa.large_string()), _WHITE).cast(pa.large_binary())
    rest = records.filter(pa.array(~likely)).to_pylist()
    return _in_order(_parts(good, schema, read), _one_by_one(rest, schema, read), likely, schema)


def _parts(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Decoded:
    """Records that look good. If Arrow refuses them together, it takes most of them in parts."""
    whole = _by_arrow(records, schema)
    if whole is not None:
        return Decoded(whole, pa.nulls(len(records), pa.string()))
    found = []
    for low in range(0, len(records), PART_RECORDS):
        part = records.slice(low, PART_RECORDS)
        columns = _by_arrow(part, schema)
        good = None if columns is None else Decoded(columns, pa.nulls(len(part), pa.string()))
        found.append(good or _one_by_one(part.to_pylist(), schema, read))
    return _joined(found, schema)


def _likely(records: pa.Array, schema: pa.Schema) -> npt.NDArray[np.bool_]:
    """Which records look as if Arrow would take them. A mistake costs time alone."""
    from windowpane.plan import duckdb_tables  # noqa: PLC0415  # where all records are good it is not needed

    texts = pa.array(list(map(_text, records.to_pylist())), pa.string()) if not _is_utf8(records) else None
    table = pa.table({"record": records.cast(pa.string()) if texts is None else texts})
    typed = [(f"'$.\"{field.name}\"'", _types(field.type)) for field in schema if not set(field.name) & set("\"'\\")]
    kinds = f"json_type(record, [{', '.join(path for path, _ in typed)}])"
    fits = [f"coalesce(kinds[{at}] IN {names}, TRUE)" for at, (_, names) in enumerate(typed, 1)]
    depth = f"len(record) < {SHALLOW} OR len(record) - len(translate(record, '[{{', '')) < {SHALLOW}"
    valid = f"json_valid(record) AND ({depth}) AND ltrim(record, chr(9) || chr(10) || chr(13) || ' ') LIKE '{{%'"
    checked = f"SELECT CASE WHEN {valid} THEN {kinds} END AS kinds FROM {duckdb_tables.INPUT}"
    sql = f"SELECT kinds IS NOT NULL AND {' AND '.join(fits or ['TRUE'])} AS likely FROM ({checked})"
    found = duckdb_tables.query(duckdb_tables.connect(), sql, table).column("likely")
    likely: npt.NDArray[np.bool_] = found.to_numpy().astype(np.bool_)
    return likely


def _types(kind: pa.DataType) -> tuple[str, ...]:
    """DuckDB's names for the values that a column takes."""
    if pa.types.is_string(kind):
        return ("VARCHAR", "NULL")
    if pa.types.is_boolean(kind):
        return ("BOOLEAN", "NULL")
    return (*(_NUMBERS if pa.types.is_floating(kind) else _INTEGERS), "NULL")


def _text(record: bytes) -> str | None:
    try:
        return record.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _by_arrow(records: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """All records at once; None when Arrow's parser does not take them as one object each.

    Each begins and ends with a brace, and between two of them is a line break, which no text holds: so an object ends
    where a record does, and as many objects as records are one each.
    """
    if not len(records):
        return _nulls(0, schema)
    if not _braced(records) or not _is_utf8(records) or _is_deep(records):
        return None
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records.cast(pa.large_binary()))
    table = parse(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer(), schema)
    if table is None or table.num_rows != len(records):
        return None
    return one_batch(table, schema)


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


def _is_deep(records: pa.Array) -> bool:
    """Whether a record may be nested too deeply for Arrow: none is that has few opening brackets."""
    long = records.filter(pc.greater_equal(pc.binary_length(records), SHALLOW))
    if not len(long):
        return False
    opened = pc.add(pc.count_substring(long, b"["), pc.count_substring(long, b"{"))
    return bool(pc.max(opened).as_py() >= SHALLOW)


def _is_utf8(records: pa.Array) -> bool:
    try:
        records.cast(pa.large_string() if pa.types.is_large_binary(records.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """Objects one after another; None when one of them is not of the schema.

    The text must begin with a brace: Arrow 24 crashes at a `null` that stands alone.
    """
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


def _one_by_one(records: Sequence[bytes], schema: pa.Schema, read: RecordReader) -> Decoded:
    found = [read(record) for record in records]
    bad = [
        None if good else record.decode("utf-8", "replace") for record, (_, good) in zip(records, found, strict=True)
    ]
    arrays = [pa.array([row.get(field.name) for row, _ in found], field.type) for field in schema]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), pa.array(bad, pa.string()))


def _in_order(first: Decoded, second: Decoded, is_first: npt.NDArray[np.bool_], schema: pa.Schema) -> Decoded:
    """Rows of both, in the order that `is_first` gives for each row."""
    ranks = np.where(is_first, np.cumsum(is_first) - 1, len(first.bad) + np.cumsum(~is_first) - 1)
    both, order = _joined([first, second], schema), pa.array(ranks)
    return Decoded(both.columns.take(order), both.bad.take(order))


def _joined(parts: Sequence[Decoded], schema: pa.Schema) -> Decoded:
    columns = pa.Table.from_batches([part.columns for part in parts], schema)
    bad = pa.chunked_array([part.bad for part in parts], pa.string()).combine_chunks()
    return Decoded(one_batch(columns, schema), bad)


def _nulls(count: int, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)


def one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """A table as one batch."""
    whole = table.select(schema.names).combine_chunks()
    return whole.to_batches()[0] if whole.num_rows else _nulls(0, schema)
