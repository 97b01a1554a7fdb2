"""Original events of rows that the columnar scan has read, as JSON text.

Only rows that go to a side output need the text. Until then, EVENT has the number of the row in its batch.
"""

from __future__ import annotations

import decimal
import json
import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.calendar_text import with_time_texts
from windowpane.core.frames import Frame, MaybeLateRows, Rows, SideRows


@dataclass(frozen=True)
class SourceRows:
    """Rows as they were read. `place`: columns that locate a bad record in the source."""

    batch: pa.RecordBatch
    place: tuple[str, ...] = ()

    def texts(self, numbers: pa.Array) -> pa.Array:
        """The events of rows by their numbers, as JSON."""
        wanted = pc.unique(numbers.drop_null())
        rows = _as_spark_writes(self.batch.take(wanted)).to_pylist()
        texts = pa.array([json.dumps(self._event(row)) for row in rows], pa.string())
        return texts.take(pc.index_in(numbers, wanted))

    def _event(self, row: dict[str, object]) -> dict[str, object]:
        if row.get(c.CORRUPT) is not None:
            return {name: row[name] for name in (c.CORRUPT, *self.place) if name in row}
        return {name: _value(value) for name, value in row.items() if name != c.CORRUPT}


def with_events(frame: Frame, source: SourceRows) -> Frame:
    """The frame with the events of its rows in place of their numbers in `source`."""
    name = "original_event" if isinstance(frame, SideRows) else c.EVENT
    if not isinstance(frame, SideRows | MaybeLateRows | Rows) or name not in frame.batch.schema.names:
        return frame
    position = frame.batch.schema.get_field_index(name)
    numbers = frame.batch.column(position)
    if not pa.types.is_int64(numbers.type):
        return frame
    return type(frame)(frame.batch.set_column(position, name, source.texts(numbers)))


def _as_spark_writes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """FLOAT columns as DOUBLE with the shortest digits that identify the FLOAT; dates and times as text."""
    for index, field in enumerate(batch.schema):
        column = batch.column(index)
        if pa.types.is_float32(field.type):
            batch = batch.set_column(index, field.name, column.cast(pa.string()).cast(pa.float64()))
        else:
            batch = batch.set_column(index, field.name, with_time_texts(column))
    return batch


def _value(value: object) -> object:
    """A value as Spark writes it to JSON with the options WHOLE_JSON."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
