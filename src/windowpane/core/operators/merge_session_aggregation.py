"""The second half of aggregation over sessions: merges small sessions with the open ones, closes and emits them.

It also decides on rows that are late unless an open session takes them in.
"""

from __future__ import annotations

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
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.operators.sessions import LEADING, SessionPlan, any_member, fold_sessions
from windowpane.core.rows import concat, int64s, select, take
from windowpane.core.state import Header
from windowpane.core.windows.session import Segments, merged_sessions

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BOOKED = [*LEADING, c.EPOCH, c.PENDING]
"""Leading columns of an open session: bounds, emissions so far, and whether an update is pending."""


@dataclass(frozen=True)
class _Judged:
    judged_us: int | None
    last_update_us: int | None


class MergeSessionAggregation(Operator):
    """Sessions in, results out. State: one row per open session."""

    def __init__(self, plan: SessionPlan, aggregator: Aggregator, emit_policy: EmitPolicy) -> None:
        super().__init__()
        self.plan, self._aggregator, self._policy = plan, aggregator, emit_policy
        self._incoming: list[pa.RecordBatch] = []
        self._maybe_late: list[pa.RecordBatch] = []
        self._open: pa.RecordBatch | None = None
        self._judged_us: int | None = None
        """The watermark before the current micro-batch."""
        self._last_update_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self.plan.keys)

    def on_partials(self, frame: Partials) -> list[Frame]:
        self._incoming.append(frame.batch)
        return []

    def on_maybe_late_rows(self, frame: MaybeLateRows) -> list[Frame]:
        self._maybe_late.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        frames = self._take_in()
        frames += self._close_for(self.watermark_us)
        if self._policy.due(self.clock_us, self._last_update_us):
            frames += self._emit_updates()
        self._judged_us = self.watermark_us
        return [*frames, frame]

    def on_end(self) -> list[Frame]:
        frames = self._take_in()
        if self._open is not None:
            frames += self._emit(self._open, final=True)
        self._open = None
        return [*frames, ControlSignal.END]

    def open_count(self) -> int:
        return 0 if self._open is None else int(self._open.num_rows)

    def _take_in(self) -> list[Frame]:
        """Join the micro-batch's sessions with the open ones; what no open session takes in and is closed is late."""
        maybe_late = concat(self._maybe_late)
        fresh = [*self._incoming, *([] if maybe_late is None else [self._each_alone(maybe_late)])]
        self._incoming, self._maybe_late = [], []
        if not fresh:
            return []
        parts = ([] if self._open is None else [self._open]) + [_booked(batch) for batch in fresh]
        whole = concat(parts)
        assert whole is not None
        start, last = int64s(whole, c.SESSION_START), int64s(whole, c.SESSION_LAST)
        found = merged_sessions(self.plan.grouped(whole)[0], start, last, self.plan.gap_us)
        merged = self._merge(whole, found)
        too_late = self.plan.closed_for(found.last, self._judged_us)
        self._open = select(merged, ~too_late)
        if maybe_late is None:
            return []
        return self._late_rows(maybe_late, found, too_late)

    def _each_alone(self, maybe_late: pa.RecordBatch) -> pa.RecordBatch:
        """One session per row, so that each can be told apart after joining."""
        ts = int64s(maybe_late, c.EVENT_TIME)
        alone = Groups(np.arange(len(ts)), len(ts))
        return fold_sessions(self._aggregator, maybe_late, Segments(alone, ts, ts))

    def _merge(self, whole: pa.RecordBatch, found: Segments) -> pa.RecordBatch:
        epochs, pending = np.zeros(found.groups.count, np.int64), np.zeros(found.groups.count, np.int64)
        np.maximum.at(epochs, found.groups.ids, int64s(whole, c.EPOCH))
        np.maximum.at(pending, found.groups.ids, int64s(whole, c.PENDING))
        heads = [pa.array(column) for column in (found.first, found.last, epochs, pending)]
        member = pa.array(any_member(found.groups))
        heads += [whole.column(name).take(member) for name in self.plan.key_names]
        return self._aggregator.merge_groups(whole, found.groups, heads, BOOKED)

    def _late_rows(self, maybe_late: pa.RecordBatch, found: Segments, too_late: Bools) -> list[Frame]:
        """Rows that may be late are the last elements of the joined batch, in their own order."""
        sessions = found.groups.ids[len(found.groups.ids) - maybe_late.num_rows :]
        late = too_late[sessions]
        self.counts.late += int(late.sum())
        self.counts.aggregated += int((~late).sum())
        if not late.any():
            return []
        missed = sessions[late]
        batch = side.side_batch(
            "late", side.LATE_WINDOW, select(maybe_late, late), clock_us=self.clock_us, watermark_us=self._judged_us,
            keys=self.plan.keys, window_start=found.first[missed], window_end=found.last[missed] + self.plan.gap_us,
        )  # fmt: skip
        return [SideRows(batch)]

    def _close_for(self, watermark_us: int | None) -> list[Frame]:
        if self._open is None:
            return []
        closed = self.plan.closed_for(int64s(self._open, c.SESSION_LAST), watermark_us)
        if not closed.any():
            return []
        done = select(self._open, closed)
        self._open = select(self._open, ~closed)
        return self._emit(done, final=True)

    def _emit_updates(self) -> list[Frame]:
        if self._open is None:
            return []
        pending = int64s(self._open, c.PENDING) == 1
        if not pending.any():
            return []
        self._last_update_us = self.clock_us
        frames = self._emit(select(self._open, pending), final=False)
        booked = {c.EPOCH: int64s(self._open, c.EPOCH) + pending, c.PENDING: np.zeros(len(pending), np.int64)}
        for name, values in booked.items():
            index = self._open.schema.get_field_index(name)
            self._open = self._open.set_column(index, self._open.schema.field(index), pa.array(values))
        return frames

    def _emit(self, sessions: pa.RecordBatch, *, final: bool) -> list[Frame]:
        order = np.lexsort((int64s(sessions, c.SESSION_START), int64s(sessions, c.SESSION_LAST)))
        sessions = take(sessions, order)
        epochs = int64s(sessions, c.EPOCH) + 1
        return emit(
            self, self._aggregator, sessions, self.plan.keys, start=int64s(sessions, c.SESSION_START),
            end=int64s(sessions, c.SESSION_LAST) + self.plan.gap_us, epochs=epochs, final=final,
        )  # fmt: skip

    def holdings(self) -> list[Holding]:
        if self._open is None or not self._open.num_rows:
            return []
        first, last = int64s(self._open, LEADING[0]).min(), int64s(self._open, LEADING[1]).max()
        end_us = int(last) + self.plan.gap_us
        return [Holding("sessions", self._open.num_rows, self._open.nbytes, start_us=int(first), end_us=end_us)]

    def header(self) -> Header:
        scalars = _Judged(self._judged_us, self._last_update_us)
        return Header.of(scalars, {} if self._open is None else {"open": self._open})

    def load_header(self, header: Header) -> None:
        judged = header.read(_Judged)
        self._judged_us, self._last_update_us = judged.judged_us, judged.last_update_us
        self._open = header.tables.get("open")


def _booked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """New sessions start at epoch 0 with a pending update."""
    zeros, ones = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.int64)
    return batch.add_column(2, c.EPOCH, pa.array(zeros)).add_column(3, c.PENDING, pa.array(ones))
