"""JSON objects to columns of a declared schema, a whole batch of them at a time, with Spark's notion of a bad record.

Arrow's parser takes a batch whole or not at all. Where it does not take one, its records are read one by one: a record
that Spark would call corrupt is bad, and the others are good.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # what json itself reads strings with
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

CHUNK_BYTES = 64 * 1024 * 1024
BLOCK_RECORDS = 2048
"""How many records are given up together when one of them is bad."""
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_NON_FINITE = {
    "NaN": math.nan, "+INF": math.inf, "INF": math.inf, "Infinity": math.inf, "+Infinity": math.inf, "-INF": -math.inf,
    "-Infinity": -math.inf,
}  # fmt: skip


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema, one row for each record, and the text of those that are bad (NULL for good ones)."""

    columns: pa.RecordBatch
    bad: pa.Array


def decode(records: pa.Array, schema: pa.Schema) -> Decoded:
    """Read records (binary, UTF-8). An absent or empty one has NULL in every column, and is good."""
    parts = [_block(records.slice(low, BLOCK_RECORDS), schema) for low in range(0, len(records), BLOCK_RECORDS)]
    columns = pa.Table.from_batches([part.columns for part in parts], schema)
    bad = pa.chunked_array([part.bad for part in parts], pa.string()).combine_chunks()
    return Decoded(_one_batch(columns, schema), bad)


def _block(records: pa.Array, schema: pa.Schema) -> Decoded:
    whole = _by_arrow(records, schema)
    if whole is not None:
        return Decoded(whole, pa.nulls(len(records), pa.string()))
    return _one_by_one(records.to_pylist(), schema)


def _by_arrow(records: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """All records at once; None when Arrow's parser does not take them as one object each."""
    if records.null_count:
        return None
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(records)], pa.int64()), records.cast(pa.large_binary()))
    table = parse(pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer(), schema)
    if table is None or table.num_rows != len(records):
        return None
    return _one_batch(table, schema)


def parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """Objects one after another; None when one of them is not of the schema."""
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    block = min(max(text.size + 1, 1 << 20), 1 << 28)
    try:
        return pj.read_json(pa.BufferReader(text), pj.ReadOptions(use_threads=False, block_size=block), options)
    except pa.ArrowException:
        return None


def _one_by_one(records: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    read = _RecordReader(schema)
    rows: list[dict[str, object]] = []
    bad: list[str | None] = []
    for record in records:
        text = (record or b"").decode("utf-8", "replace")
        fields, good = read(text) if text.strip() else ({}, True)
        rows.append(fields)
        bad.append(None if good else text)
    return Decoded(pa.RecordBatch.from_pylist(rows, schema), pa.array(bad, pa.string()))


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
Reader: TypeAlias = Callable[[object, str], object]
"""A value that is not null, and how it is written, to a value of the column."""


class _RecordReader:
    """Reads one record as Spark does: its fields, and whether it is good. Of an object with values of wrong types the
    others are there; of what is no object there is nothing.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._readers = {field.name: _reader(field.type) for field in schema}

    def __call__(self, text: str) -> tuple[dict[str, object], bool]:
        found: dict[str, object] = {}
        good = True
        try:
            for name, value, written in _fields(text):
                if name in self._readers:
                    found[name], fits = self._value(name, value, written)
                    good = good and fits
        except (ValueError, RecursionError):
            return {}, False
        return found, good

    def _value(self, name: str, value: object, written: str) -> tuple[object, bool]:
        try:
            return None if value is None else self._readers[name](value, written), True
        except ValueError:
            return None, False


def _fields(text: str) -> Iterator[tuple[str, object, str]]:
    """Names, values and texts of an object's fields. What comes after the object does not matter to Spark."""
    at, sign = _next(text, 0)
    if sign != "{":
        raise ValueError("not an object")
    at, sign = _next(text, at + 1)
    while sign != "}":
        if sign != '"':
            raise ValueError("not a name")
        name, at = scanstring(text, at + 1)
        at, sign = _next(text, at)
        if sign != ":":
            raise ValueError("no value")
        low, _ = _next(text, at + 1)
        value, at = _DECODER.raw_decode(text, low)
        yield name, value, text[low:at]
        at, sign = _next(text, at)
        if sign == ",":
            at, sign = _next(text, at + 1)
            sign = "" if sign == "}" else sign
        elif sign != "}":
            raise ValueError("neither a further field nor the end")


def _next(text: str, at: int) -> tuple[int, str]:
    """Where the next sign is, and which; empty at the end."""
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return at, text[at : at + 1]


def _reader(kind: pa.DataType) -> Reader:
    if pa.types.is_string(kind):
        return lambda value, written: value if isinstance(value, str) else written
    if pa.types.is_boolean(kind):
        return _boolean
    return _integer(_BITS[kind]) if kind in _BITS else _double


def _integer(bits: int) -> Reader:
    limit = 1 << (bits - 1)

    def read(value: object, _written: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise ValueError("not an integer of that size")
        return value

    return read


def _double(value: object, written: str) -> float:
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004
    return float(written)


def _boolean(value: object, _written: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError("not true or false")  # noqa: TRY004
    return value


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
    table = parse(pa.py_buffer(text), schema)
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    if table is not None and table.num_rows == count:
        return Decoded(_one_batch(table, schema), pa.nulls(count, pa.string()))
    pattern = r"\r\n|\n|\r" if b"\r" in text else r"\n"
    records = pc.split_pattern_regex(pa.array([text], pa.large_binary()), pattern).values
    return decode(records.filter(pc.not_equal(pc.binary_length(_trimmed(records)), 0)), schema)


def _trimmed(records: pa.Array) -> pa.Array:
    return pc.ascii_trim_whitespace(records.cast(pa.large_string(), safe=False)).cast(pa.large_binary())


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    whole = table.select(schema.names).combine_chunks()
    return whole.to_batches()[0] if whole.num_rows else pa.RecordBatch.from_pylist([], schema)
