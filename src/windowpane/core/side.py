"""Side rows: rows that reach no result, with the reason why. All operators give them the same columns.

`side_records.py` makes of them the records that sinks get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c

LATE_WINDOW = "allowed_lateness_exceeded"
LATE_ROW = "behind_watermark"
MAX_GROUPS = "max_groups"
DUPLICATE = "duplicate_key"
NO_PARTNER = "no_partner"
OVERFLOW = "overflow"
EVALUATION = "evaluation_error"
DECODE = "decode_error"
SHOWN = 200
"""How many characters of an unreadable value a detail shows."""


@dataclass(frozen=True)
class Key:
    """A group key: the name of its internal column, and its name in the query."""

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


OF = "of"
"""Column of side rows that are not among the rows read, as their account has them: what they are instead."""
RESULT, STAGE = "result", "stage"
"""A result or a pair of rows, which no account has; a row that the account of another stage has."""


def not_read(batch: pa.RecordBatch, what: str) -> pa.RecordBatch:
    """Side rows with the mark that they are not among the rows read; a mark that they have stays."""
    return batch if OF in batch.schema.names else batch.append_column(OF, pa.repeat(pa.scalar(what), batch.num_rows))


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
    """Side rows with details that may be shown, never a whole record.

    `originals`: the route includes original rows. Otherwise details contain nothing of a row's content.
    """
    detail = batch.column("error_detail").cast(pa.string())
    undecoded = pc.fill_null(pc.equal(batch.column("reason"), DECODE), fill_value=False)
    if originals:
        shown = pc.if_else(undecoded, pc.utf8_slice_codeunits(detail, 0, SHOWN), detail)
    else:
        hidden = pc.replace_substring_regex(detail, r"(?s)^(.*?) is .*, which is no (\w+)$", r"\1 is no \2")
        shown = pc.if_else(undecoded, pa.scalar("the record cannot be read"), hidden)
    return batch.set_column(batch.schema.get_field_index("error_detail"), "error_detail", shown)
