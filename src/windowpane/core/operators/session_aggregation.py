"""Streaming aggregation over sessions in two halves.

The partial half folds rows into small sessions; the merge half joins them with the open ones, and decides on rows that
are late unless an open session takes them in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import blob, side
from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.emission import EmitPolicy
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, MaybeLateRows, Partials, Rows, SideRows
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.rows import concat, int64s, select, take
from windowpane.core.side import Key
from windowpane.core.windows.session import Segments, Session, segment

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEADING = [c.SESSION_START, c.SESSION_LAST]
BOOKED = [*LEADING, c.EPOCH, c.PENDING]
"""Leading columns of an open session: bounds, emissions so far, and whether a change waits to be emitted."""


@dataclass(frozen=True)
class SessionPlan:
    """What both halves must agree on."""

    spec: Session
    keys: tuple[Key, ...]
    allowed_lateness_us: int = 0

    @property
    def gap_us(self) -> int:
        return self.spec.gap_us

    @property
    def key_names(self) -> list[str]:
        return [key.name for key in self.keys]

    def closed(self, last: Int64s, watermark_us: int | None) -> Bools:
        """Which sessions, by their last instant, the watermark has closed."""
        if watermark_us is None:
            return np.zeros(len(last), bool)
        return self.spec.closed(last, watermark_us - self.allowed_lateness_us)

    def grouped(self, rows: pa.RecordBatch) -> tuple[Groups, Int64s]:
        return group_rows([rows.column(name) for name in self.key_names], rows.num_rows)


class PartialSessionAggregation(Operator):
    """Rows in, sessions of this micro-batch out. Rows that would be late alone go on as they are."""

    def __init__(self, plan: SessionPlan, aggregator: Aggregator) -> None:
        super().__init__()
        self.plan, self._aggregator = plan, aggregator
        self.arrival_states, self.is_ordered = aggregator.arrival_names, aggregator.is_ordered

    def on_rows(self, frame: Rows) -> list[Frame]:
        maybe_late = self.plan.closed(int64s(frame.batch, c.EVENT_TIME), self.watermark_us)
        frames: list[Frame] = []
        if maybe_late.any():
            frames.append(MaybeLateRows(select(frame.batch, maybe_late)))
        rows = select(frame.batch, ~maybe_late)
        if rows.num_rows:
            self.counts.aggregated += rows.num_rows
            frames.append(Partials(self._fold(rows)))
        return frames

    def _fold(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        ts = int64s(rows, c.EVENT_TIME)
        found = segment(self.plan.grouped(rows)[0], ts, ts, self.plan.gap_us)
        return fold_sessions(self._aggregator, rows, found)


def fold_sessions(aggregator: Aggregator, rows: pa.RecordBatch, found: Segments) -> pa.RecordBatch:
    """Rows to one state per session."""
    heads = [pa.array(found.first), pa.array(found.last)]
    heads += [rows.column(key).take(pa.array(_any_member(found.groups))) for key in aggregator.keys]
    return aggregator.fold_groups(rows, found.groups, heads, LEADING)


def _any_member(groups: Groups) -> Int64s:
    """Some element of each group."""
    members = np.zeros(groups.count, np.int64)
    members[groups.ids] = np.arange(len(groups.ids))
    return members


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
        frames += self._close(self.watermark_us)
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
        found = segment(self.plan.grouped(whole)[0], start, last, self.plan.gap_us)
        merged = self._merge(whole, found)
        too_late = self.plan.closed(found.last, self._judged_us)
        self._open = select(merged, ~too_late)
        if maybe_late is None:
            return []
        return self._part_late(maybe_late, found, too_late)

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
        member = pa.array(_any_member(found.groups))
        heads += [whole.column(name).take(member) for name in self.plan.key_names]
        return self._aggregator.merge_groups(whole, found.groups, heads, BOOKED)

    def _part_late(self, maybe_late: pa.RecordBatch, found: Segments, too_late: Bools) -> list[Frame]:
        """MaybeLateRows are the last elements of the joined batch, in their own order."""
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

    def _close(self, watermark_us: int | None) -> list[Frame]:
        if self._open is None:
            return []
        closed = self.plan.closed(int64s(self._open, c.SESSION_LAST), watermark_us)
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
        return [Holding("sessions", self._open.num_rows, self._open.nbytes, int(first), end_us)]

    def state(self) -> blob.State:
        meta = {"judged_us": self._judged_us, "last_update_us": self._last_update_us}
        return blob.State(meta, {} if self._open is None else {"open": self._open})

    def load(self, state: blob.State) -> None:
        judged, last = state.meta["judged_us"], state.meta["last_update_us"]
        self._judged_us = judged if isinstance(judged, int) else None
        self._last_update_us = last if isinstance(last, int) else None
        self._open = state.batches.get("open")


def _booked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A fresh session has been emitted never, and waits."""
    zeros, ones = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, np.int64)
    return batch.add_column(2, c.EPOCH, pa.array(zeros)).add_column(3, c.PENDING, pa.array(ones))
