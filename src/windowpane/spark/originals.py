"""Original events of rows that workers have read themselves: made only for the rows that leave by a side output.

Until then EVENT holds the number of the row in its batch.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.frames import Frame, Rows, SideRows, Suspects


def with_events(frame: Frame, source: pa.RecordBatch) -> Frame:
    """The frame with the events of its rows in place of their numbers in `source`."""
    name = "original_event" if isinstance(frame, SideRows) else c.EVENT
    if not isinstance(frame, SideRows | Suspects | Rows) or name not in frame.batch.schema.names:
        return frame
    position = frame.batch.schema.get_field_index(name)
    numbers = frame.batch.column(position)
    if not pa.types.is_int64(numbers.type):
        return frame
    return type(frame)(frame.batch.set_column(position, name, _texts(source, numbers)))


def _texts(source: pa.RecordBatch, numbers: pa.Array) -> pa.Array:
    wanted = pc.unique(numbers.drop_null())
    texts = pa.array([json.dumps(_plain(row)) for row in source.take(wanted).to_pylist()], pa.string())
    return texts.take(pc.index_in(numbers, wanted))


def _plain(row: dict[str, object]) -> dict[str, object]:
    corrupt = row.pop(c.CORRUPT, None)
    return {name: _value(value) for name, value in row.items()} if corrupt is None else {c.CORRUPT: corrupt}


def _value(value: object) -> object:
    """As Spark writes it into JSON, told to leave nothing out."""
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%f}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
