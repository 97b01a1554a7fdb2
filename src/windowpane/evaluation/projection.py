"""From the rows of a source, as workers have read them, to the columns of the input projection.

The other half of the columnar scan: it knows nothing of files or records. Imports Arrow, and DuckDB if needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.side import DECODE, SHOWN
from windowpane.evaluation.event_times import EventTimeColumn, EventTimes
from windowpane.evaluation.iso8601 import parse_iso8601
from windowpane.evaluation.reasons import told_of

_CLOCK = c.TIME_SOURCES.index("processing_time")
_TIME_ERROR, _TIME_DETAIL = "_time_error", "_time_detail"


@dataclass(frozen=True)
class Projection:
    """Picklable. Types are those of Spark, in Arrow."""

    times: EventTimes | None
    plain: tuple[tuple[str, str], ...]
    computed: tuple[tuple[str, str, pa.DataType, bool], ...]
    """Name, DuckDB's text, type, and whether it can fail on some row."""
    where: str | None
    blamed: tuple[tuple[str, str | None, str], ...] = ()
    """Of computed columns that can fail, the first to blame first: name, DuckDB's text of why, the expression."""

    def rows(self, source: pa.RecordBatch, clock_us: int) -> pa.RecordBatch:
        """Rows as operators take them. CORRUPT of `source` has the text of bad records. Keeps SOURCE_PARTITION."""
        columns = self._times(source, clock_us)
        columns |= {name: source.column(column) for name, column in self.plain}
        details = [columns.pop(_TIME_DETAIL)] if _TIME_DETAIL in columns else []
        reasons = [columns.pop(_TIME_ERROR)] if _TIME_ERROR in columns else []
        if self.computed:
            values, failed = _computed(source, {name: given for name, *given in self.computed})
            columns |= values
            if self.blamed:
                reason, detail = told_of(failed, self.blamed, lambda guard: _text(source, guard), source.num_rows)
                reasons.append(reason)
                details.append(detail)
        if c.CORRUPT in source.schema.names and source.column(c.CORRUPT).null_count < source.num_rows:
            unread = source.column(c.CORRUPT).is_valid()
            reasons = [pc.if_else(unread, DECODE, pa.scalar(None, pa.string())), *reasons]
        if reasons:
            columns[c.ERROR] = pc.coalesce(*reasons) if len(reasons) > 1 else reasons[0]
            columns[c.DETAIL] = pc.coalesce(_corrupt(source), *details)
        if self.where is not None:
            columns[c.KEEP] = pc.fill_null(columns[self.where], False)
        if c.SOURCE_PARTITION in source.schema.names:
            columns[c.SOURCE_PARTITION] = source.column(c.SOURCE_PARTITION)
        return pa.RecordBatch.from_pydict(columns)

    def _times(self, source: pa.RecordBatch, clock_us: int) -> dict[str, pa.Array]:
        if self.times is None:
            return {c.EVENT_TIME: pa.array(np.full(source.num_rows, clock_us, np.int64))}
        looked = [_micros(source.column(at.column), at.unit_us) for at in self.times.columns]
        codes = [at.code for at in self.times.columns]
        if self.times.clock:
            # A record that could not be read would move the watermark to the clock.
            clock = pa.scalar(clock_us, pa.int64())
            looked.append(pc.if_else(_corrupt(source).is_null(), clock, pa.scalar(None, pa.int64())))
            codes.append(_CLOCK)
        times = pc.coalesce(*looked) if looked[0].null_count else looked[0]
        found = {c.EVENT_TIME: times}
        if self.times.told:
            found[c.TIME_SOURCE] = _first_valid(looked, codes)
        last = self.times.columns[-1]
        if last.strict and times.null_count:
            values = source.column(last.column)
            absent = pc.if_else(values.is_null(), "event_time_null", "event_time_parse")
            found[_TIME_ERROR] = pc.if_else(times.is_null(), absent, pa.scalar(None, pa.string()))
            found[_TIME_DETAIL] = _failures(last, values, times)
        return found


def _corrupt(source: pa.RecordBatch) -> pa.Array:
    if c.CORRUPT in source.schema.names:
        return source.column(c.CORRUPT)
    return pa.nulls(source.num_rows, pa.string())


def _computed(
    source: pa.RecordBatch, items: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    from windowpane.evaluation import duckdb_tables  # noqa: PLC0415  # most queries need no more than bare columns

    given = {name: duckdb_tables.Item(*item) for name, item in items.items()}
    return duckdb_tables.evaluate(duckdb_tables.connect(), given, pa.Table.from_batches([source]))


def _text(source: pa.RecordBatch, text: str) -> pa.Array:
    """An expression of text that is NULL where it fails."""
    values, _ = _computed(source, {"text": (text, pa.string(), True)})
    return values["text"]


def _first_valid(columns: list[pa.Array], codes: list[int]) -> pa.Array:
    """Of each row, the code of the first column that has a value there."""
    found = pa.nulls(len(columns[0]), pa.int8())
    for column, code in zip(reversed(columns), reversed(codes), strict=True):
        own = pa.scalar(code, pa.int8())
        found = pc.if_else(column.is_valid(), own, found) if column.null_count else pa.repeat(own, len(column))
    return found


def _failures(at: EventTimeColumn, values: pa.Array, times: pa.Array) -> pa.Array:
    """What rows without a time have there instead, NULL for the others."""
    shown = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, SHOWN)
    there = pc.binary_join_element_wise(f"{at.column} is ", shown, f", which is no {at.type}", "")
    told = pc.coalesce(there, f"{at.column} is NULL")
    return pc.if_else(times.is_null(), told, pa.scalar(None, pa.string()))


def _micros(values: pa.Array, unit_us: int | None) -> pa.Array:
    if pa.types.is_string(values.type):
        return parse_iso8601(values)[0]
    wide = values.cast(pa.int64())
    if unit_us is None or unit_us == 1:
        return wide
    limit = np.iinfo(np.int64).max // unit_us
    fits = pc.and_(pc.less_equal(wide, limit), pc.greater_equal(wide, -limit))
    return pc.multiply(pc.if_else(fits, wide, None), unit_us)
