"""A row's event time: the first of several places that has one, in microseconds, and why a row has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.side import SHOWN
from windowpane.evaluation.expressions import Columns, Computed, evaluate
from windowpane.evaluation.unix_times import ParsedTimes

FARTHEST_US = 2**62
"""Event times beyond this (some 146,000 years) cannot be computed with: a value that cannot be read."""
_CLOCK = c.TIME_SOURCES.index("processing_time")


@dataclass(frozen=True)
class TimeLookup:
    """One place to look for a time. Picklable if `parse` is."""

    column: str
    """Of the source; the expression, for people, where it is computed."""
    parse: Callable[[pa.Array], ParsedTimes]
    strict: bool = False
    """A row without a time is an error row. Only the last of several can be."""
    type: str = ""
    """What the type of event time is called, for people."""
    code: int = 0
    """Which of `columns.TIME_SOURCES` a time from here counts as."""
    value: Computed | None = None
    """What is looked at, where it is no column."""
    time: Computed | None = None
    """What `parse` reads, where it is not the value itself."""


@dataclass(frozen=True)
class EventTimes:
    """Places in which a row's time is looked for, in this order.

    `names_source`: each row names the source of its time. `clock`: rows without a time have that of their micro-batch.
    """

    lookups: tuple[TimeLookup, ...]
    names_source: bool = False
    clock: bool = False

    def resolve(self, source: pa.RecordBatch | pa.Table, clock_us: int) -> Columns:
        """EVENT_TIME, TIME_SOURCE where rows say it, and ERROR and DETAIL if a row of a strict lookup has no time."""
        found = [_looked_up(each, source) for each in self.lookups]
        looked, codes = [each.times for each in found], [each.code for each in self.lookups]
        if self.clock:
            # A record that could not be read would move the watermark to the clock.
            clock = pa.scalar(clock_us, pa.int64())
            looked.append(pc.if_else(unreadable(source).is_null(), clock, pa.scalar(None, pa.int64())))
            codes.append(_CLOCK)
        times = pc.coalesce(*looked) if len(looked) > 1 and looked[0].null_count else looked[0]
        columns = {c.EVENT_TIME: times}
        if self.names_source:
            columns[c.TIME_SOURCE] = _first_valid(looked, codes)
        if self.lookups and self.lookups[-1].strict and times.null_count:
            columns |= found[-1].failures(self.lookups[-1], times)
        return columns


@dataclass(frozen=True)
class _LookedUp:
    times: pa.Array
    values: pa.Array
    failed: pa.Array | None
    """Where the value cannot be computed."""

    def failures(self, lookup: TimeLookup, times: pa.Array) -> Columns:
        """For rows without a time: whether they have no value or one that is no time, and which."""
        nothing = pa.scalar(None, pa.string())
        shown = pc.utf8_slice_codeunits(self.values.cast(pa.string()), 0, SHOWN)
        there = pc.binary_join_element_wise(f"{lookup.column} is ", shown, f", which is no {lookup.type}", "")
        absent, detail = self.values.is_null(), pc.coalesce(there, f"{lookup.column} is NULL")
        if self.failed is not None:
            absent = pc.and_not(absent, self.failed)
            detail = pc.if_else(self.failed, f"cannot compute {lookup.column}", detail)
        reason = pc.if_else(absent, "event_time_null", "event_time_parse")
        return {
            c.ERROR: pc.if_else(times.is_null(), reason, nothing),
            c.DETAIL: pc.if_else(times.is_null(), detail, nothing),
        }


def _looked_up(lookup: TimeLookup, source: pa.RecordBatch | pa.Table) -> _LookedUp:
    given = {name: each for name, each in (("value", lookup.value), ("time", lookup.time)) if each is not None}
    computed, failed = evaluate(given, source)
    values = computed["value"] if lookup.value is not None else whole_column(source, lookup.column)
    times, _ = lookup.parse(computed.get("time", values))
    return _LookedUp(_bounded(times), values, failed.get("value"))


def _bounded(times: pa.Array) -> pa.Array:
    """NULL for what is too far."""
    ends = pc.min_max(times).as_py()
    if ends["min"] is None or (ends["min"] >= -FARTHEST_US and ends["max"] < FARTHEST_US):
        return times
    near = pc.and_(pc.greater_equal(times, -FARTHEST_US), pc.less(times, FARTHEST_US))
    return pc.if_else(near, times, pa.scalar(None, pa.int64()))


def _first_valid(columns: list[pa.Array], codes: list[int]) -> pa.Array:
    """Of each row, the code of the first column that has a value there."""
    found = pa.nulls(len(columns[0]), pa.int8())
    for column, code in zip(reversed(columns), reversed(codes), strict=True):
        own = pa.scalar(code, pa.int8())
        found = pc.if_else(column.is_valid(), own, found) if column.null_count else pa.repeat(own, len(column))
    return found


def unreadable(source: pa.RecordBatch | pa.Table) -> pa.Array:
    """The text of records that could not be read, NULL for the others."""
    if c.CORRUPT in source.schema.names:
        return whole_column(source, c.CORRUPT)
    return pa.nulls(source.num_rows, pa.string())


def whole_column(source: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = source.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
