"""The second half of aggregation over sessions: merges small sessions with the open ones, closes and emits them.

It also decides on rows that are late unless an open session takes them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.aggregation import Aggregator
from windowpane.core.emission import EmitPolicy
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, MaybeLateRows, Partials, SideRows
from windowpane.core.groups import Groups
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.operators.closing import as_judged_now
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.operators.session_parts import BOOKED, Joined, SessionParts
from windowpane.core.operators.sessions import SessionPlan, fold_sessions
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import concat, int64s, joined, select, take
from windowpane.core.run_content import Content
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.session import Segments

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Judged:
    judged_us: int | None
    last_update_us: int | None
    lateness_us: int | None = None


class MergeSessionAggregation(Operator):
    """Sessions in, results out. State: parts of the open sessions, and what changed since the last updates."""

    shard_scalars = ("last_update_us",)

    def __init__(self, plan: SessionPlan, aggregator: Aggregator, emit_policy: EmitPolicy) -> None:
        super().__init__()
        self.plan, self._aggregator, self._policy = plan, aggregator, emit_policy
        self._incoming: list[pa.RecordBatch] = []
        self._maybe_late: list[pa.RecordBatch] = []
        self._parts = SessionParts(plan, aggregator, states=aggregator.state_names)
        self._changed = Panes(Content(joined, tuple(plan.key_names)), "changed.")
        """Bounds and groups of parts that came since updates were last emitted, all in one pane."""
        self._last_update_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self.plan.keys)

    def on_partials(self, frame: Partials) -> list[Frame]:
        self._incoming.append(frame.batch)
        return []

    def on_maybe_late_rows(self, frame: MaybeLateRows) -> list[Frame]:
        self._maybe_late.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._take_in()
        if self.watermark_us is not None:
            for sessions in self._parts.closed(self.watermark_us):
                yield from self._emit(sessions, final=True)
        self._parts.close(self.watermark_us)
        if self._policy.due(self.clock_us, self._last_update_us):
            yield from self._emit_updates()
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._take_in()
        for parts in self._parts.all():
            whole = self._parts.merged(self._parts.join(parts), np.ones(parts.num_rows, bool))
            yield from self._emit(whole, final=True)
        self._parts.clear()
        yield ControlSignal.END

    def open_count(self) -> int:
        return self._parts.count()

    def _take_in(self) -> list[Frame]:
        """Add the micro-batch's sessions to the open ones. A row that is behind and joins none of these is late."""
        fresh = concat(map(_unemitted, self._incoming))
        maybe_late = concat(self._maybe_late)
        self._incoming, self._maybe_late = [], []
        frames: list[Frame] = []
        if maybe_late is not None:
            frames, accepted = self._judge(maybe_late, fresh)
            fresh = accepted if fresh is None else concat([fresh, accepted])
        if fresh is not None and fresh.num_rows:
            self._parts.append(fresh)
            self._note(fresh)
        return frames

    def _note(self, changed: pa.RecordBatch) -> None:
        if self._policy.updates and changed.num_rows:
            self._changed.append(0, changed.select([*BOOKED, *self.plan.key_names]))

    def _judge(self, maybe_late: pa.RecordBatch, fresh: pa.RecordBatch | None) -> tuple[list[Frame], pa.RecordBatch]:
        """Side rows for those that are late, and parts for those that are not."""
        alone = self._each_alone(maybe_late)
        others = [part for part in (self._parts.of_groups(alone), fresh) if part is not None]
        whole = joined([*others, alone])
        found = self._parts.join(whole).found
        sessions = found.groups.ids[whole.num_rows - alone.num_rows :]
        late = self.plan.closed_for(found.last[sessions], self._parts.judged_us)
        self.counts.late += int(late.sum())
        self.counts.aggregated += int((~late).sum())
        # With the bounds of its session, a part cannot be taken for a closed one.
        reaching = alone.set_column(1, alone.schema.field(1), pa.array(found.last[sessions]))
        if not late.any():
            return [], reaching
        missed = sessions[late]
        batch = side.side_batch(
            "late", side.LATE_WINDOW, select(maybe_late, late), clock_us=self.clock_us,
            watermark_us=self._parts.judged_us, keys=self.plan.keys,
            window_start=found.first[missed], window_end=found.last[missed] + self.plan.gap_us,
        )  # fmt: skip
        return [SideRows(batch)], select(reaching, ~late)

    def _each_alone(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One part per row, so that each can be told apart after joining."""
        ts = int64s(rows, c.EVENT_TIME)
        alone = Groups(np.arange(len(ts)), len(ts))
        return _unemitted(fold_sessions(self._aggregator, rows, Segments(alone, ts, ts)))

    def _emit_updates(self) -> Iterator[Frame]:
        """Emit the open sessions that changed since the last updates."""
        for changed in self._changed.parts(self._changed.starts()):
            parts = self._parts.of_groups(changed)
            sessions = None if parts is None else self._sessions_with(parts, changed)
            if sessions is not None and sessions.num_rows:
                self._last_update_us = self.clock_us
                yield from self._emit(sessions, final=False)
                self._parts.append(self._emitted(sessions))
        self._changed.clear()

    def _sessions_with(self, parts: pa.RecordBatch, changed: pa.RecordBatch) -> pa.RecordBatch:
        """The sessions of these parts that contain a changed one."""
        both = joined([parts.select(changed.schema.names), changed])
        found = self._parts.join(both).found
        has_changed = np.zeros(found.groups.count, bool)
        has_changed[found.groups.ids[parts.num_rows :]] = True
        own = Joined(parts, found.of_first(parts.num_rows))
        return self._parts.merged(own, has_changed[own.found.groups.ids])

    def _emitted(self, sessions: pa.RecordBatch) -> pa.RecordBatch:
        """Parts without rows, which say that these sessions have been emitted once more."""
        heads = [sessions.column(name) for name in (c.SESSION_START, c.SESSION_LAST)]
        heads += [pa.array(int64s(sessions, c.EPOCH) + 1), *(sessions.column(name) for name in self.plan.key_names)]
        return self._aggregator.without_rows(heads, BOOKED)

    def _emit(self, sessions: pa.RecordBatch, *, final: bool) -> list[Frame]:
        order = np.lexsort((int64s(sessions, c.SESSION_START), int64s(sessions, c.SESSION_LAST)))
        sessions = take(sessions, order)
        epochs = int64s(sessions, c.EPOCH) + 1
        return emit(
            self, self._aggregator, sessions, self.plan.keys, start=int64s(sessions, c.SESSION_START),
            end=int64s(sessions, c.SESSION_LAST) + self.plan.gap_us, epochs=epochs, final=final,
        )  # fmt: skip

    def holdings(self) -> list[Holding]:
        count, size, firsts, lasts = 0, 0, list[int](), list[int]()
        for parts in self._parts.all():
            found = self._parts.join(parts).found
            count, size = count + found.groups.count, size + parts.nbytes
            firsts.append(int(found.first.min()))
            lasts.append(int(found.last.max()))
        if not count:
            return []
        return [Holding("sessions", count, size, start_us=min(firsts), end_us=max(lasts) + self.plan.gap_us)]

    def header(self) -> Header:
        return Header.of(_Judged(self._parts.judged_us, self._last_update_us, self.plan.allowed_lateness_us))

    def load_header(self, header: Header) -> None:
        judged = header.read(_Judged)
        self._parts.judged_us = as_judged_now(judged.judged_us, judged.lateness_us, self.plan.allowed_lateness_us)
        self._last_update_us = judged.last_update_us

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        self._parts.save(entries)
        self._changed.save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._parts.load(entries)
        self._changed.load(entries)
        if "open" in header.tables:
            self._take_up_older(header.tables["open"])

    def divided(self) -> tuple[Divisible, ...]:
        return (*self._parts.divided(), self._changed)

    def _take_up_older(self, sessions: pa.RecordBatch) -> None:
        """Older versions had all sessions in the header, with a mark on those that have changed."""
        pending = int64s(sessions, c.PENDING) == 1
        parts = sessions.drop_columns([c.PENDING])
        self._parts.append(parts)
        self._note(select(parts, pending))


def _unemitted(sessions: pa.RecordBatch) -> pa.RecordBatch:
    """New sessions as parts, with epoch 0."""
    return sessions.add_column(2, c.EPOCH, pa.array(np.zeros(sessions.num_rows, np.int64)))
