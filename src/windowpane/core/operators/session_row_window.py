"""Sessions that keep their rows until they close: for queries whose aggregates need all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, SideRows
from windowpane.core.grouped_rows import GroupedRows, thinned
from windowpane.core.groups import Groups
from windowpane.core.operators.base import Holding, Operator, holdings_of
from windowpane.core.operators.closing import as_judged_now
from windowpane.core.operators.row_windows import window_rows, window_rows_schema
from windowpane.core.operators.session_parts import BOOKED, SessionParts
from windowpane.core.operators.sessions import SessionPlan, any_member
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import RowBuffer, concat, int64s, joined, select, take
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.session import Segments, merged_sessions

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

AT_ONCE = 16_384
"""So many sessions are emitted at once."""


@dataclass(frozen=True)
class _Judged:
    judged_us: int | None
    lateness_us: int | None = None


class _Bounds:
    """Merges parts that have nothing but bounds and keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def merge_groups(
        self, states: pa.RecordBatch, groups: Groups, heads: Sequence[pa.Array], leading: Sequence[str]
    ) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(heads), [*leading, *self._keys])


class SessionRowWindow(Operator):
    """Sessions of rows, one per group of the plan's keys.

    State: the bounds of the open sessions in parts, and all rows by the hash of their group, which are looked up when
    a session closes. Rows of closed sessions stay until their runs are merged.
    """

    def __init__(self, plan: SessionPlan) -> None:
        super().__init__()
        self.plan, self._fresh = plan, RowBuffer()
        self._parts = SessionParts(plan, _Bounds(plan.key_names), "parts.")
        self._rows = GroupedRows("rows", plan.key_names, partial(thinned, self._live))

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return window_rows_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._fresh.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._take_in()
        if self.watermark_us is not None:
            for sessions in self._parts.closed(self.watermark_us):
                yield from self._emit(sessions)
        self._parts.close(self.watermark_us)
        self._drop_closed()
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._take_in()
        for parts in self._parts.all():
            whole = self._parts.merged(self._parts.join(parts), np.ones(parts.num_rows, bool))
            yield from self._emit(whole)
        self._parts.clear()
        self._drop_closed()
        yield ControlSignal.END

    def _take_in(self) -> list[Frame]:
        """Judge the micro-batch's rows after joining them with the open sessions."""
        fresh = self._fresh.rows()
        self._fresh.replace(None)
        if fresh is None:
            return []
        frames: list[Frame] = []
        behind = self.plan.closed_for(int64s(fresh, c.EVENT_TIME), self._parts.judged_us)
        if behind.any():
            late, found, ids = self._judged(fresh, behind)
            frames = self._late(select(fresh, late), found, ids[late]) if late.any() else []
            fresh = select(fresh, ~late)
        self.counts.aggregated += fresh.num_rows
        if fresh.num_rows:
            self._keep(fresh)
        return frames

    def _judged(self, fresh: pa.RecordBatch, behind: Bools) -> tuple[Bools, Segments, Int64s]:
        """Which rows are late: those behind the watermark that no open session takes in. With the session of each."""
        alone = _parts(fresh, _alone(fresh), self.plan.key_names)
        known = self._parts.of_groups(select(fresh, behind))
        whole = alone if known is None else concat([known, alone])
        assert whole is not None
        found = self._parts.join(whole).found
        ids = found.groups.ids[whole.num_rows - fresh.num_rows :]
        return self.plan.closed_for(found.last[ids], self._parts.judged_us), found, ids

    def _late(self, rows: pa.RecordBatch, found: Segments, ids: Int64s) -> list[Frame]:
        self.counts.late += rows.num_rows
        batch = side.side_batch(
            "late", side.LATE_WINDOW, rows, clock_us=self.clock_us, watermark_us=self._parts.judged_us,
            keys=self.plan.keys, window_start=found.first[ids], window_end=found.last[ids] + self.plan.gap_us,
        )  # fmt: skip
        return [SideRows(batch)]

    def _keep(self, rows: pa.RecordBatch) -> None:
        """Rows of open sessions, with their parts. A part behind the watermark gets the bounds of its session."""
        ts = int64s(rows, c.EVENT_TIME)
        parts = _parts(rows, merged_sessions(self.plan.grouped(rows)[0], ts, ts, self.plan.gap_us), self.plan.key_names)
        behind = self.plan.closed_for(int64s(parts, c.SESSION_LAST), self._parts.judged_us)
        known = self._parts.of_groups(select(parts, behind)) if behind.any() else None
        if known is not None:
            whole = joined([known, parts])
            parts = self._parts.merged(self._parts.join(whole), np.arange(whole.num_rows) >= known.num_rows)
        self._parts.append(parts)
        self._rows.append(rows)

    def _emit(self, sessions: pa.RecordBatch) -> Iterator[Frame]:
        """Sessions in order of their end; rows of each by (ts, arrival)."""
        order = np.lexsort((int64s(sessions, c.SESSION_START), int64s(sessions, c.SESSION_LAST)))
        for begin in range(0, len(order), AT_ONCE):
            some = take(sessions, order[begin : begin + AT_ONCE])
            rows = self._rows.of_groups(some)
            assert rows is not None
            index = self._sessions_of(rows, some)
            chosen = np.flatnonzero(index >= 0)
            chosen = chosen[
                np.lexsort((int64s(rows, c.ARRIVAL)[chosen], int64s(rows, c.EVENT_TIME)[chosen], index[chosen]))
            ]
            index = index[chosen]
            bounds = int64s(some, c.SESSION_START)[index], int64s(some, c.SESSION_LAST)[index] + self.plan.gap_us
            yield window_rows(rows, chosen, index=index, bounds=bounds)

    def _sessions_of(self, rows: pa.RecordBatch, sessions: pa.RecordBatch) -> Int64s:
        """For each row, the session it is in, -1 if it is in none. Sessions of one group do not overlap."""
        names = self.plan.key_names
        both = concat([sessions.select(names), rows.select(names)]) if names else None
        count = sessions.num_rows
        owner = np.zeros(count + rows.num_rows, np.int64) if both is None else self.plan.grouped(both)[0].ids
        ts = int64s(rows, c.EVENT_TIME)
        times = np.concatenate([int64s(sessions, c.SESSION_START), ts])
        order = np.lexsort((np.arange(len(times)) >= count, times, owner))
        session = np.full(len(times), -1)
        session[order] = np.maximum.accumulate(np.where(order < count, np.arange(len(order)), -1))
        # The last session that starts before a row, by its place in the order, if it is of the same group.
        found = np.where(session[count:] < 0, -1, order[session[count:]])
        inside = (found >= 0) & (owner[found] == owner[count:]) & (ts <= int64s(sessions, c.SESSION_LAST)[found])
        return np.where(inside, found, -1)

    def _live(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Without rows of closed sessions."""
        parts = self._parts.of_groups(rows)
        if parts is None:
            return rows.slice(0, 0)
        sessions = self._parts.merged(self._parts.join(parts), np.ones(parts.num_rows, bool))
        return select(rows, self._sessions_of(rows, sessions) >= 0)

    def _drop_closed(self) -> None:
        """Without open sessions, no row is needed."""
        if self._parts.is_empty():
            self._rows.clear()

    def open_count(self) -> int:
        return self._parts.count()

    def holdings(self) -> list[Holding]:
        return holdings_of({"rows": self._rows})

    def header(self) -> Header:
        return Header.of(_Judged(self._parts.judged_us, self.plan.allowed_lateness_us))

    def load_header(self, header: Header) -> None:
        judged = header.read(_Judged)
        self._parts.judged_us = as_judged_now(judged.judged_us, judged.lateness_us, self.plan.allowed_lateness_us)

    def save(self, entries: StateEntries) -> None:
        self._parts.save(entries)
        self._rows.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._parts.load(entries)
        self._rows.load(entries)
        if "open" in header.tables:
            # Older versions had all rows in the header.
            self._keep(header.tables["open"])

    def divided(self) -> tuple[Divisible, ...]:
        """Parts come before the rows, whose merging asks for these."""
        return (*self._parts.divided(), *self._rows.divided())


def _alone(rows: pa.RecordBatch) -> Segments:
    """Each row as a session of its own, so that each can be told apart after joining."""
    ts = int64s(rows, c.EVENT_TIME)
    return Segments(Groups(np.arange(len(ts)), len(ts)), ts, ts)


def _parts(rows: pa.RecordBatch, found: Segments, keys: Sequence[str]) -> pa.RecordBatch:
    """Sessions of rows as parts, never emitted."""
    member = pa.array(any_member(found.groups))
    heads = [pa.array(found.first), pa.array(found.last), pa.array(np.zeros(found.groups.count, np.int64))]
    return pa.RecordBatch.from_arrays([*heads, *(rows.column(key).take(member) for key in keys)], [*BOOKED, *keys])
