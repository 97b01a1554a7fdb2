"""Rows by time, in segments: a micro-batch writes the rows that it adds, and reads those whose time it asks for.

For operators that keep rows over many micro-batches. A segment is an immutable entry of at most SEGMENT_ROWS rows, by
(time, arrival). Its time range and size are in the operator's header, so that nothing is read to know what is there.
Segments of one run do not overlap in time; `segment_merging.py` keeps the number of segments and runs small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.rescaling import Owned
from windowpane.core.rows import concat, in_time_order, int64s, plain
from windowpane.core.segment_merging import Merge, merge_runs, merge_small
from windowpane.core.segments import DIGEST, ROWS, Segment, SegmentStore
from windowpane.core.state import HEADER, StateEntries

SEGMENT_ROWS = 50_000
"""The most rows of a stored segment."""
CHUNK_ROWS = 500_000
"""About how many rows are given at once."""

_FIELDS = {each.name: pa.string() if each.name in ("name", "summary") else pa.int64() for each in fields(Segment)}
_MERGES = pa.schema(
    [("target", pa.int64()), ("level", pa.int64()), ("sources", pa.list_(pa.int64())), ("credit", pa.int64())]
)


class SegmentedRows:
    """Rows with EVENT_TIME and ARRIVAL. They are dropped by time, the earliest first.

    `name`: what the names of their entries, and of their tables in the operator's header, begin with.
    """

    def __init__(self, name: str, entries: StateEntries | None = None) -> None:
        self._name = name
        self.segments: list[Segment] = []
        """Those of each run in order of time."""
        self.store = SegmentStore(name, entries)
        self.merges: list[Merge] = []
        """Those that are under way."""
        self._next = self._added = 0
        self._fresh: list[pa.RecordBatch] = []

    def append(self, batch: pa.RecordBatch) -> None:
        """Rows in any order, none of them before the instant of the last `drop_before`."""
        if batch.num_rows:
            self._fresh.append(plain(batch))
            self._added += batch.num_rows

    def between(self, first_us: int | None = None, last_us: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in [first_us, last_us], segment by segment. None: no bound."""
        return (self.part(segment, first_us, last_us) for segment in self.reached(first_us, last_us))

    def ordered(self, first_us: int | None = None, last_us: int | None = None) -> pa.RecordBatch | None:
        """The rows in [first_us, last_us] by (time, arrival); None if there are none."""
        return in_one(self.between(first_us, last_us))

    def reached(self, first_us: int | None = None, last_us: int | None = None) -> list[Segment]:
        """The segments that may have rows in [first_us, last_us]."""
        self.settle()
        return [
            segment
            for segment in self.segments
            if (last_us is None or segment.first_us <= last_us) and (first_us is None or segment.last_us >= first_us)
        ]

    def part(self, segment: Segment, first_us: int | None = None, last_us: int | None = None) -> pa.RecordBatch:
        """The rows of a segment in [first_us, last_us]."""
        rows = self.store.read(segment)
        ts = int64s(rows, c.EVENT_TIME)
        since = segment.first_us if first_us is None else max(first_us, segment.first_us)
        low = int(np.searchsorted(ts, since, "left"))
        high = len(ts) if last_us is None else int(np.searchsorted(ts, last_us, "right"))
        return rows.slice(low, max(0, high - low))

    def cuts(self, first_us: int | None, last_us: int | None, limit: int | None = None) -> Iterator[int]:
        """Instants up to which to go on at a time, so that about `limit` rows are processed at once.

        The last one is `last_us`, or the time of the last row. None at all if there are no rows.
        """
        reached = sorted((segment.last_us, segment.count) for segment in self.reached(first_us, last_us))
        if not reached:
            return
        end_us, gathered = reached[-1][0] if last_us is None else last_us, 0
        for until_us, count in reached:
            gathered += count
            if gathered >= (limit or CHUNK_ROWS) and until_us < end_us:
                yield until_us
                gathered = 0
        yield end_us

    def take(self, last_us: int | None) -> Iterator[pa.RecordBatch]:
        """Take out the rows up to an instant (None: all), by (time, arrival), some at a time."""
        for until_us in self.cuts(None, last_us):
            rows = self.ordered(None, until_us)
            self.drop_before(until_us + 1)
            if rows is not None:
                yield rows

    def drop_before(self, us: int) -> None:
        """Drop the rows before an instant."""
        self.settle()
        for segment in [segment for segment in self.segments if segment.first_us < us]:
            self.advance(segment, us)

    def advance(self, segment: Segment, us: int) -> None:
        """The rows of a segment before `us` are no longer part of it."""
        if segment.last_us < us:
            self.remove(segment)
            return
        segment.first_us = us
        rows = self.store.at_hand(segment.number)
        if rows is not None:
            segment.dead = int(np.searchsorted(int64s(rows, c.EVENT_TIME), us, "left"))

    def clear(self) -> None:
        self.settle()
        for segment in list(self.segments):
            self.remove(segment)

    def remove(self, segment: Segment) -> None:
        self.segments.remove(segment)
        self.store.forget(segment)

    def settle(self) -> None:
        """Make segments of the rows that were appended."""
        fresh, self._fresh = [in_time_order(batch) for batch in self._fresh], []
        follow = all(_last(before) <= _first(after) for before, after in pairwise(fresh))
        for rows in fresh if follow else [in_one(fresh)]:
            assert rows is not None
            self.add(rows, self._run_before(_first(rows)))

    def _run_before(self, us: int) -> int:
        """The run that rows from `us` on continue: that of the last segment, or a new one."""
        busy = self.merged_runs()
        last = next((segment for segment in reversed(self.segments) if segment.run not in busy), None)
        return self.new_run() if last is None or last.last_us > us else last.run

    def new_run(self) -> int:
        return max([*(segment.run for segment in self.segments), *self.merged_runs()], default=-1) + 1

    def merged_runs(self) -> set[int]:
        """Runs that are being merged, and those that they become."""
        return {run for merge in self.merges for run in (merge.target, *merge.sources)}

    def add(self, rows: pa.RecordBatch, run: int, level: int = 0) -> None:
        """A segment of rows that are in order, and behind those of the run."""
        first_us = _first(rows)
        self.segments.append(Segment(self._next, run, level, rows.num_rows, first_us, first_us, _last(rows)))
        self.store.put(self._next, rows)
        self._next += 1

    def __len__(self) -> int:
        """Rows. Dropped ones that share a segment with later ones count until the segment is read again."""
        fresh: int = sum(batch.num_rows for batch in self._fresh)
        return fresh + sum(segment.count - segment.dead for segment in self.segments)

    @property
    def size(self) -> int:
        """Bytes."""
        held: int = self.store.unsaved_size + sum(batch.nbytes for batch in self._fresh)
        return held + sum(segment.size for segment in self.segments)

    def save(self, entries: StateEntries) -> None:
        """Write the segments that are new, and remove those that are gone. To be called before `tables`."""
        self.settle()
        merge_small(self, SEGMENT_ROWS)
        merge_runs(self, SEGMENT_ROWS, self._added)
        self._cut()
        self._added = 0
        self.store.save(self.segments, entries)

    def take_over(self, others: Sequence[SegmentedRows], owned: Owned | None, entries: StateEntries) -> None:
        """As of `Divisible`, in order of time."""
        first_us = None
        for last_us in sorted({cut for other in others for cut in other.cuts(None, None)}):
            parts = (part for other in others for part in other.between(first_us, last_us))
            mine = in_one(parts if owned is None else map(owned.rows, parts))
            if mine is not None:
                self.append(mine)
                self.save(entries)
            first_us = last_us + 1

    def _cut(self) -> None:
        """Cut segments that are not stored yet to SEGMENT_ROWS, without their dropped rows."""
        made, self.segments = self.segments, []
        for segment in made:
            if self.store.is_stored(segment) or (segment.is_whole and segment.count <= SEGMENT_ROWS):
                self.segments.append(segment)
                continue
            rows = self.part(segment)
            self.store.forget(segment)
            pieces = -(-rows.num_rows // SEGMENT_ROWS)
            bounds = [rows.num_rows * piece // pieces for piece in range(pieces + 1)]
            for low, high in pairwise(bounds):
                self.add(rows.slice(low, high - low), segment.run, segment.level)

    def tables(self) -> dict[str, pa.RecordBatch]:
        """For an operator's header: what `loaded` needs."""
        if not self.segments:
            return {}
        columns = [pa.array([getattr(each, field) for each in self.segments], kind) for field, kind in _FIELDS.items()]
        tables = {f"{self._name}.segments": pa.RecordBatch.from_arrays(columns, list(_FIELDS))}
        if self.merges:
            tables[f"{self._name}.merges"] = pa.RecordBatch.from_pylist(list(map(vars, self.merges)), _MERGES)
        return tables

    @classmethod
    def loaded(cls, name: str, entries: StateEntries, tables: Mapping[str, pa.RecordBatch]) -> Self:
        """What `save` wrote and `tables` gave. In older state the header has the rows, under `name`."""
        made = cls(name, entries)
        if name in tables:
            made.append(tables[name])
        if f"{name}.segments" in tables:
            made.segments = [Segment(**row) for row in tables[f"{name}.segments"].to_pylist()]
            made._next = 1 + max(segment.number for segment in made.segments)
        if f"{name}.merges" in tables:
            made.merges = [Merge(**row) for row in tables[f"{name}.merges"].to_pylist()]
        return made

    @classmethod
    def loaded_unlisted(cls, name: str, entries: StateEntries, dead: int) -> Self:
        """Segments that an older version wrote, named `NUMBER#DIGEST`, without listing them in the header.

        `dead`: how many rows of the first one are dropped.
        """
        made = cls(name, entries)
        names = [name for name in entries.names() if name != HEADER]
        for stored in sorted(names, key=lambda name: int(name.partition(DIGEST)[0])):
            made.append(made.store.entry(stored, ROWS).slice(dead))
            dead = 0
        made.store.forget_entries(names)
        return made


def in_one(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The rows of all batches by (time, arrival); None if there are none."""
    whole = concat(batch for batch in batches if batch.num_rows)
    return None if whole is None else in_time_order(whole)


def _first(rows: pa.RecordBatch) -> int:
    return int(rows.column(c.EVENT_TIME)[0].as_py())


def _last(rows: pa.RecordBatch) -> int:
    return int(rows.column(c.EVENT_TIME)[rows.num_rows - 1].as_py())
