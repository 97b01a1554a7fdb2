"""Side rows: what became of rows that reach no result, in columns, and as the records people read.

The columns are the same for every operator, so that a side output is one stream whatever produced it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.time import format_instant

LATE_WINDOW = "allowed_lateness_exceeded"
LATE_ROW = "behind_watermark"
MAX_GROUPS = "max_groups"
DUPLICATE = "duplicate_key"
OVERFLOW = "overflow"
DECODE = "decode_error"
SHOWN = 200
"""So many characters of a value that cannot be read are told."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Key:
    """A group key: the column it travels in and what the user calls it."""

    name: str
    label: str


def side_batch(
    kind: str,
    reason: str | pa.Array,
    rows: pa.RecordBatch,
    *,
    clock_us: int,
    watermark_us: int | None,
    keys: Sequence[Key] = (),
    window_start: npt.NDArray[np.int64] | None = None,
    window_end: npt.NDArray[np.int64] | None = None,
    detail: str | pa.Array | None = None,
) -> pa.RecordBatch:
    """Side rows for `rows`, with their event time, keys, source partition and original event where they have them."""
    count = rows.num_rows
    fields = {
        "kind": pa.repeat(pa.scalar(kind), count),
        "reason": reason if isinstance(reason, pa.Array) else pa.repeat(pa.scalar(reason), count),
        "event_us": _column(rows, c.EVENT_TIME, pa.int64()),
        "processing_us": pa.repeat(pa.scalar(clock_us, pa.int64()), count),
        "watermark_us": pa.repeat(pa.scalar(watermark_us, pa.int64()), count),
        "window_start_us": _bounds(window_start, count),
        "window_end_us": _bounds(window_end, count),
        "group_key": _group_key(rows, keys),
        "original_event": _column(rows, c.EVENT, pa.null()),
        "error_detail": detail if isinstance(detail, pa.Array) else pa.repeat(pa.scalar(detail, pa.string()), count),
        "shard": _column(rows, c.SOURCE_PARTITION, pa.string()),
        "reinjections": _column(rows, c.REINJECTIONS, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(fields)


def _column(rows: pa.RecordBatch, name: str, otherwise: pa.DataType) -> pa.Array:
    if name in rows.schema.names:
        return rows.column(name)
    return pa.nulls(rows.num_rows, otherwise)


def _bounds(values: npt.NDArray[np.int64] | None, count: int) -> pa.Array:
    return pa.nulls(count, pa.int64()) if values is None else pa.array(values, pa.int64())


def _group_key(rows: pa.RecordBatch, keys: Sequence[Key]) -> pa.Array:
    present = [key for key in keys if key.name in rows.schema.names]
    if not present:
        return pa.nulls(rows.num_rows)
    return pa.StructArray.from_arrays([rows.column(key.name) for key in present], [key.label for key in present])


def shown_details(batch: pa.RecordBatch, *, originals: bool) -> pa.RecordBatch:
    """Side rows whose details are fit to be shown: never a whole record.

    `originals`: the route asked for the rows as they were read. Without it a detail holds nothing of a row's content.
    """
    detail = batch.column("error_detail").cast(pa.string())
    undecoded = pc.fill_null(pc.equal(batch.column("reason"), DECODE), fill_value=False)
    if originals:
        shown = pc.if_else(undecoded, pc.utf8_slice_codeunits(detail, 0, SHOWN), detail)
    else:
        told = pc.replace_substring_regex(detail, r"(?s)^(.*?) is .*, which is no (\w+)$", r"\1 is no \2")
        shown = pc.if_else(undecoded, pa.scalar("the record cannot be read"), told)
    return batch.set_column(batch.schema.get_field_index("error_detail"), "error_detail", shown)


def to_records(batch: pa.RecordBatch, plan_id: str, transform: str) -> list[dict[str, object]]:
    """The records of ADR-0001 as dicts, every field filled, times in RFC 3339 with microseconds.

    A row that was read again has `reinjections` too: how often.
    """
    return [_record(row, plan_id, transform) for row in readable(batch).to_pylist()]


def record_text(record: dict[str, object]) -> str:
    """A record as JSON that every reader takes: a lone half of a surrogate pair becomes U+FFFD."""
    text = json.dumps(record)
    if "\\ud" not in text:
        return text
    whole = _LONE_SURROGATE.sub("\ufffd", json.dumps(record, ensure_ascii=False))
    return json.dumps(json.loads(whole))


def readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Texts of a source may hold bytes that are not UTF-8, which no JSON can: U+FFFD stands for each of them."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        return pa.RecordBatch.from_arrays([_valid_utf8(column) for column in rows.columns], rows.schema.names)
    return rows


def _valid_utf8(values: pa.Array) -> pa.Array:
    if pa.types.is_struct(values.type):
        names = [values.type.field(number).name for number in range(values.type.num_fields)]
        parts = [_valid_utf8(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, names, mask=values.is_null()) if names else values
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return values
    texts = values.cast(pa.large_binary()).to_pylist()
    return pa.array([None if text is None else text.decode("utf-8", "replace") for text in texts], pa.string())


def _record(row: dict[str, object], plan_id: str, transform: str) -> dict[str, object]:
    start, end = row["window_start_us"], row["window_end_us"]
    record = {
        "kind": row["kind"],
        "reason": row["reason"],
        "event_time": _instant(row["event_us"]),
        "processing_time": _instant(row["processing_us"]),
        "watermark": _instant(row["watermark_us"]),
        "window": None if start is None else {"start": _instant(start), "end": _instant(end)},
        "group_key": _jsonable(row["group_key"]),
        "original_event": _original(row["original_event"]),
        "error_detail": row["error_detail"],
        "plan_id": plan_id,
        "shard": _partition_number(row["shard"]),
        "transform": transform,
    }
    return record | {"reinjections": row["reinjections"]} if row["reinjections"] else record


def _partition_number(partition: object) -> object:
    """A source partition is named `stream/number`, or `stream/topic-number`; the record has the number."""
    number = str(partition).rpartition("/")[2].rpartition("-")[2]
    return int(number) if number.isdigit() else partition


def _original(event: object) -> object:
    """Events travel as JSON text. What Python cannot read of it is kept as text: a number of 5,000 digits, for one."""
    if not isinstance(event, str):
        return _jsonable(event)
    try:
        return json.loads(event, parse_constant=str, parse_float=_number)
    except (ValueError, RecursionError):
        return {c.CORRUPT: event}


def _number(text: str) -> float | str:
    """JSON has no infinity, which a number like 1e999 would become."""
    number = float(text)
    return number if math.isfinite(number) else text


def _instant(us: object) -> str | None:
    return format_instant(us) if isinstance(us, int) else None


def _jsonable(value: object) -> object:
    if isinstance(value, dict):
        return {name: _jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    return value
