"""Side records: side rows as sinks get them, the JSON of ADR-0001."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.calendar_text import with_time_texts
from windowpane.time import format_instant

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def to_records(batch: pa.RecordBatch, plan_id: str, transform: str) -> list[dict[str, object]]:
    """The records of ADR-0001 as dicts, every field filled, times in RFC 3339 with microseconds.

    Reinjected rows also have `reinjections`: how often they were read again.
    """
    return [_record(row, plan_id, transform) for row in _listed(readable(batch))]


def _listed(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Rows as dicts. Keys may be dates for which Python has no value: then they are texts."""
    try:
        rows: list[dict[str, object]] = batch.to_pylist()
    except (OverflowError, ValueError):
        rows = pa.RecordBatch.from_arrays(list(map(with_time_texts, batch.columns)), batch.schema.names).to_pylist()
    return rows


def record_text(record: dict[str, object]) -> str:
    """A record as JSON that every reader accepts: half of a surrogate pair becomes U+FFFD."""
    text = json.dumps(record)
    if "\\ud" not in text:
        return text
    whole = _LONE_SURROGATE.sub("\ufffd", json.dumps(record, ensure_ascii=False))
    return json.dumps(json.loads(whole))


def readable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as valid UTF-8. Sources may give other bytes, which JSON cannot hold: they become U+FFFD."""
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
    """The original event, from JSON. An event that Python cannot read, such as a number of 5,000 digits, stays text."""
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
