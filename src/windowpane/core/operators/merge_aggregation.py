"""The second half of aggregation over aligned windows: keeps accumulators per pane, closes windows, emits results.

It may run behind a shuffle. `partial_aggregation.py` is the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.emission import EmissionLog, EmitPolicy
from windowpane.core.frames import BatchEnd, ClosedStates, ControlSignal, Frame, Partials
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.operators.closing import as_judged_now
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.operators.window_states import WindowStates
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import int64s, take
from windowpane.core.run_content import Content
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.ranges import arithmetic_runs

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Closed:
    closed_us: int | None
    last_us: int | None
    """When updates were last emitted."""
    lateness_us: int | None = None
    """The allowed lateness with which windows have been closed."""


class MergeAggregation(Operator):
    """Partial accumulators in, results out. State is O(groups) per pane."""

    shard_scalars = ("last_us",)

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator, emit_policy: EmitPolicy) -> None:
        super().__init__()
        self.plan, self._aggregator, self._windows = plan, aggregator, plan.windows
        self._incoming: list[pa.RecordBatch] = []
        self._panes = Panes(Content(aggregator.merge, tuple(plan.key_names), states=aggregator.state_names))
        self._states = WindowStates(plan, aggregator, self._panes)
        self._log = EmissionLog(plan.key_names, emit_policy)
        self._updates = emit_policy.updates
        self._closed_us: int | None = None
        """The watermark up to which windows have been closed."""
        self.keeps_closed = False
        """Whether it also gives the accumulators of closed windows, for repairs."""

    @property
    def aggregator(self) -> Aggregator:
        return self._aggregator

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self.plan.keys)

    def on_partials(self, frame: Partials) -> list[Frame]:
        self._incoming.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        self._take_in()
        if self.watermark_us is not None:
            yield from self._close_for(self.watermark_us)
        if self._log.due(self.clock_us):
            yield from self._emit_updates()
        yield frame

    def on_end(self) -> Iterator[Frame]:
        self._take_in()
        yield from self._emit_windows(self.open_windows())
        self._panes.clear()
        yield ControlSignal.END

    def open_windows(self) -> Int64s:
        """Keys of the windows that have rows and are not closed, sorted."""
        panes = np.array(self._panes.starts(), np.int64)
        if not len(panes):
            return panes
        keys = panes if self.plan.whole_windows else self._windows.keys_over(panes)
        return keys if self._closed_us is None else keys[~self.plan.closed_for(keys, self._closed_us)]

    def _take_in(self) -> None:
        """Put the micro-batch's partials into their panes."""
        if not self._incoming:
            return
        merged = self._aggregator.merge(self._incoming, [c.PANE])
        self._incoming = []
        panes = int64s(merged, c.PANE)
        self._states.touch(int(panes.min()))
        self._panes.append_by(panes, merged.drop_columns([c.PANE]))
        if self._updates:
            self._note_changes(merged, panes)

    def _note_changes(self, merged: pa.RecordBatch, panes: Int64s) -> None:
        positions, keys = np.arange(len(panes)), panes
        if self.plan.shared_panes:
            positions, keys = self._windows.open_for(panes)
        if self._closed_us is not None:
            still_open = ~self.plan.closed_for(keys, self._closed_us)
            positions, keys = positions[still_open], keys[still_open]
        changed = take(merged, positions).append_column(c.WINDOW_KEY, pa.array(keys))
        self._log.note(changed)

    def _close_for(self, watermark_us: int) -> Iterator[Frame]:
        """Emit every window that the watermark has closed since last time, and drop panes no open window needs."""
        keys = self.open_windows()
        keys = keys[self.plan.closed_for(keys, watermark_us)]
        yield from self._emit_windows(keys)
        self._log.forget(keys)
        self._closed_us = watermark_us
        panes = np.array(self._panes.starts(), np.int64)
        last = self._windows.last_key(panes) if self.plan.shared_panes else panes
        for pane in panes[self.plan.closed_for(last, watermark_us)].tolist():
            self._panes.drop(pane)

    def _emit_windows(self, keys: Int64s) -> Iterator[Frame]:
        for states in self._states.in_parcels(keys):
            yield from self._emit_states(states, final=True)

    def _emit_updates(self) -> Iterator[Frame]:
        for pending in self._log.take_pending(self.clock_us):
            yield from self._emit_states(self._states.of_groups(pending), final=False)

    def _emit_states(self, states: pa.RecordBatch, *, final: bool) -> list[Frame]:
        start, end = self._windows.bounds(int64s(states, c.WINDOW_KEY))
        counts = self._updates or self._log.has_emitted
        epochs = self._log.next_epochs(states) if counts else np.ones(states.num_rows, np.int64)
        frames = emit(
            self, self._aggregator, states, self.plan.keys, start=start, end=end, epochs=epochs, final=final
        )  # fmt: skip
        if final and self.keeps_closed:
            ended = states.append_column(c.WINDOW_END, pa.array(end))
            frames.append(ClosedStates(ended.append_column(c.EPOCH, pa.array(epochs))))
        return frames

    def open_runs(self) -> list[list[int]]:
        return arithmetic_runs(self.open_windows(), self._windows.key_step)

    def holdings(self) -> list[Holding]:
        """Panes or windows, in order of time."""
        return [self._holding(pane) for pane in self._panes.starts()]

    def _holding(self, pane: int) -> Holding:
        if self.plan.whole_windows:
            what, (start, end) = "window", (int(bound[0]) for bound in self._windows.bounds(np.array([pane])))
        else:
            what, start, end = "pane", pane, self._windows.pane_end(pane)
        count, size = self._panes.measure([pane])
        return Holding(what, count, size, start_us=start, end_us=end)

    def header(self) -> Header:
        return Header.of(_Closed(self._closed_us, self._log.last_us, self.plan.allowed_lateness_us))

    def load_header(self, header: Header) -> None:
        closed = header.read(_Closed)
        self._closed_us = as_judged_now(closed.closed_us, closed.lateness_us, self.plan.allowed_lateness_us)
        self._log.last_us = closed.last_us

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        self._panes.save(entries)
        self._log.save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._panes.load(entries)
        self._log.load(entries, header.tables)

    def divided(self) -> tuple[Divisible, ...]:
        return (self._panes, *self._log.divided())
