"""Streaming aggregation over aligned windows in two halves, so that they can stand on two sides of a shuffle:
PartialAggregation folds rows into partial accumulators per pane, MergeAggregation keeps panes and closes windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import blob, side
from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.emission import EmissionLog, EmitPolicy
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Partials, Rows, SideRows, Watermark
from windowpane.core.groups import group_rows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.quota import GroupQuota
from windowpane.core.rows import concat, int64s, select, take
from windowpane.core.windows.ranges import arithmetic_runs
from windowpane.core.windows.two_stacks import TwoStacks

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COMPACT_RUNS = 8
"""A pane with more deltas than this is compacted even if they are small."""


class PartialAggregation(AlignedIntake):
    """Rows in, partial accumulators out. Judges lateness per window against the watermark before the micro-batch."""

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator) -> None:
        super().__init__(plan)
        self._aggregator = aggregator
        self.arrival_states, self.is_ordered = aggregator.arrival_names, aggregator.is_ordered
        self._quota = None if plan.max_groups is None else GroupQuota(plan.max_groups, plan.key_names)

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.part_unplaced(frame.batch)
        if not rows.num_rows:
            return frames
        if self.plan.shared_panes and self._quota is None:
            self.counts.aggregated += rows.num_rows
            return [*frames, Partials(self._fold_panes(rows))]
        positions, keys = self._assign(int64s(rows, c.EVENT_TIME))
        if self._quota is not None:
            positions, keys = self._admit(self._quota, rows, positions, keys, frames)
        self.counts.aggregated += rows.num_rows if self._quota is None else len(np.unique(positions))
        if len(keys):
            frames.append(Partials(self._aggregator.fold(take(rows, positions), {c.PANE: keys})))
        return frames

    def _fold_panes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._windows.pane_number(int64s(rows, c.EVENT_TIME))
        keys = [rows.column(name) for name in self.plan.key_names]
        groups, first = group_rows([pa.array(numbers), *keys], rows.num_rows)
        heads = [pa.array(self._windows.pane_start(numbers[first])), *(key.take(pa.array(first)) for key in keys)]
        return self._aggregator.fold_groups(rows, groups, heads, [c.PANE])

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        if self._quota is not None:
            keys = self._quota.windows()
            self._quota.forget(keys[self.plan.closed(keys, frame.us)])
        return super().on_watermark(frame)

    def _assign(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """Row positions and the pane (or, unshared, every open window) each goes to."""
        if self.plan.shared_panes:
            return np.arange(len(ts)), self._windows.pane_start(self._windows.pane_number(ts))
        positions, keys = self._windows.windows_of(ts)
        if self.watermark_us is None:
            return positions, keys
        still_open = ~self.plan.closed(keys, self.watermark_us)
        return positions[still_open], keys[still_open]

    def _admit(
        self, quota: GroupQuota, rows: pa.RecordBatch, positions: Int64s, keys: Int64s, frames: list[Frame]
    ) -> tuple[Int64s, Int64s]:
        """Leave out what exceeds the quota; a row is evicted when none of its windows takes it."""
        order = np.argsort(positions, kind="stable")
        positions, keys = positions[order], keys[order]
        pairs = take(rows, positions).append_column(c.WINDOW_KEY, pa.array(keys))
        admitted = quota.admit(pairs)
        taken = np.zeros(rows.num_rows, bool)
        taken[positions[admitted]] = True
        if not taken.all():
            self.counts.evicted += int((~taken).sum())
            refused = np.full(rows.num_rows, 0, np.int64)
            refused[positions] = keys
            start, end = self._windows.bounds(refused[~taken])
            batch = side.side_batch(
                "evicted", side.MAX_GROUPS, select(rows, ~taken), clock_us=self.clock_us,
                watermark_us=self.watermark_us, keys=self.plan.keys, window_start=start, window_end=end,
                detail=f"the window already has {quota.max_groups} groups",
            )  # fmt: skip
            frames.append(SideRows(batch))
        return positions[admitted], keys[admitted]

    def state(self) -> blob.State:
        return blob.State({}, {} if self._quota is None else self._quota.batches())

    def load(self, state: blob.State) -> None:
        if self._quota is not None:
            self._quota.load(dict(state.batches))


class MergeAggregation(Operator):
    """Partial accumulators in, results out. State is O(groups) per pane; a pane's deltas are compacted as they grow."""

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator, emit_policy: EmitPolicy) -> None:
        super().__init__()
        self.plan, self._aggregator, self._windows = plan, aggregator, plan.windows
        self._incoming: list[pa.RecordBatch] = []
        self._panes: dict[int, list[pa.RecordBatch]] = {}
        self._stacks = TwoStacks(aggregator.merge)
        self._log = EmissionLog(plan.key_names, emit_policy)
        self._updates = emit_policy.updates
        self._closed_us: int | None = None
        """The watermark up to which windows have been closed."""
        self._written: dict[int, list[pa.RecordBatch]] = {}
        """The deltas of each pane as they were last given to the host."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self.plan.keys)

    def on_partials(self, frame: Partials) -> list[Frame]:
        self._incoming.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        self._take_in()
        frames = [] if self.watermark_us is None else self._close_through(self.watermark_us)
        if self._log.due(self.clock_us):
            frames += self._emit_updates()
        return [*frames, frame]

    def on_end(self) -> list[Frame]:
        self._take_in()
        frames = self._emit_windows(self.open_windows())
        self._panes.clear()
        return [*frames, ControlSignal.END]

    def open_windows(self) -> Int64s:
        """Keys of the windows that have rows and are not closed, sorted."""
        if not self._panes:
            return np.zeros(0, np.int64)
        panes = np.array(sorted(self._panes), np.int64)
        keys = panes if self.plan.whole_windows else np.unique(self._windows.windows_of(panes)[1])
        return keys if self._closed_us is None else keys[~self.plan.closed(keys, self._closed_us)]

    def _take_in(self) -> None:
        """Put the micro-batch's partials into their panes."""
        if not self._incoming:
            return
        merged = self._aggregator.merge(self._incoming, [c.PANE])
        self._incoming = []
        panes = int64s(merged, c.PANE)
        order = np.argsort(panes, kind="stable")
        merged, panes = take(merged, order), panes[order]
        bounds = np.flatnonzero(np.concatenate([[True], panes[1:] != panes[:-1], [True]]))
        content = merged.drop_columns([c.PANE])
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            self._append(int(panes[low]), content.slice(low, high - low))
        if self._updates:
            self._note_changes(merged, panes)

    def _append(self, pane: int, delta: pa.RecordBatch) -> None:
        runs = self._panes.setdefault(pane, [])
        runs.append(delta)
        self._stacks.touch(pane)
        deltas = sum(run.num_rows for run in runs[1:])
        if len(runs) > COMPACT_RUNS or 2 * deltas > runs[0].num_rows:
            self._panes[pane] = [self._aggregator.merge(runs)]

    def _note_changes(self, merged: pa.RecordBatch, panes: Int64s) -> None:
        positions, keys = np.arange(len(panes)), panes
        if self.plan.shared_panes:
            positions, keys = self._windows.windows_of(panes)
        if self._closed_us is not None:
            still_open = ~self.plan.closed(keys, self._closed_us)
            positions, keys = positions[still_open], keys[still_open]
        changed = take(merged, positions).append_column(c.WINDOW_KEY, pa.array(keys))
        self._log.note(changed)

    def _pane(self, start: int) -> pa.RecordBatch:
        """A pane's state, its deltas compacted."""
        runs = self._panes[start]
        if len(runs) > 1:
            runs[:] = [self._aggregator.merge(runs)]
        return runs[0]

    def _close_through(self, watermark_us: int) -> list[Frame]:
        """Emit every window that the watermark has closed since last time, and drop panes no open window needs."""
        keys = self.open_windows()
        keys = keys[self.plan.closed(keys, watermark_us)]
        frames = self._emit_windows(keys)
        self._log.forget(keys)
        self._closed_us = watermark_us
        panes = np.array(sorted(self._panes), np.int64)
        last = self._windows.last_key(panes) if self.plan.shared_panes else panes
        for pane in panes[self.plan.closed(last, watermark_us)].tolist():
            del self._panes[pane]
        return frames

    def _window_states(self, keys: Int64s) -> pa.RecordBatch:
        """The states of the windows, whose keys are sorted, with their keys in front."""
        if self.plan.whole_windows:
            parts = [[self._pane(key)] for key in keys.tolist()]
        else:
            ordered, bounds = sorted(self._panes), (bound.tolist() for bound in self._windows.bounds(keys))
            parts = [self._stacks.query(low, high, self._pane, ordered) for low, high in zip(*bounds, strict=True)]
        whole = concat(part for window in parts for part in window)
        assert whole is not None
        windows = np.repeat(np.arange(len(keys)), [sum(part.num_rows for part in window) for window in parts])
        if max(map(len, parts)) > 1:
            return self._merge_windows(whole, keys, windows)
        schema = self._aggregator.state_schema([c.WINDOW_KEY])
        return pa.RecordBatch.from_arrays([pa.array(keys[windows]), *whole.columns], schema=schema)

    def _merge_windows(self, parts: pa.RecordBatch, keys: Int64s, windows: Int64s) -> pa.RecordBatch:
        """`windows` has the number of the window in `keys` that each part is of, which does not decrease."""
        columns = [parts.column(name) for name in self.plan.key_names]
        groups, first = group_rows([pa.array(windows), *columns], parts.num_rows)
        heads = [pa.array(keys[windows[first]]), *(column.take(pa.array(first)) for column in columns)]
        return self._aggregator.merge_groups(parts, groups, heads, [c.WINDOW_KEY])

    def _emit_windows(self, keys: Int64s) -> list[Frame]:
        return self._emit_states(self._window_states(keys), final=True) if len(keys) else []

    def _emit_updates(self) -> list[Frame]:
        pending = self._log.take_pending(self.clock_us)
        if pending is None or not pending.num_rows:
            return []
        states = self._window_states(np.unique(int64s(pending, c.WINDOW_KEY)))
        return self._emit_states(_semi_join(states, pending, [c.WINDOW_KEY, *self.plan.key_names]), final=False)

    def _emit_states(self, states: pa.RecordBatch, *, final: bool) -> list[Frame]:
        start, end = self._windows.bounds(int64s(states, c.WINDOW_KEY))
        epochs = self._log.next_epochs(states) if self._updates else np.ones(states.num_rows, np.int64)
        return emit(
            self, self._aggregator, states, self.plan.keys, start=start, end=end, epochs=epochs, final=final
        )  # fmt: skip

    def open_runs(self) -> list[list[int]]:
        return arithmetic_runs(self.open_windows(), self._windows.key_step)

    def holdings(self) -> list[Holding]:
        """Panes or windows, in order of time."""
        what = "window" if self.plan.whole_windows else "pane"
        return [self._holding(what, pane, self._pane(pane)) for pane in sorted(self._panes)]

    def _holding(self, what: str, pane: int, state: pa.RecordBatch) -> Holding:
        if self.plan.whole_windows:
            start, end = (int(bound[0]) for bound in self._windows.bounds(np.array([pane])))
        else:
            start, end = pane, self._windows.pane_end(pane)
        return Holding(what, state.num_rows, state.nbytes, start, end)

    def changed_entries(self) -> dict[str, bytes | None]:
        """One entry per delta of a pane, so that a micro-batch writes what it added and not what was there."""
        meta, batches = self._log.state()
        own = {"closed_us": self._closed_us, "clock_us": self.clock_us, "watermark_us": self.watermark_us}
        entries: dict[str, bytes | None] = {"": blob.pack(blob.State(meta | own, batches))}
        for pane in self._written.keys() | self._panes.keys():
            entries |= _changed_runs(pane, self._written.get(pane, []), self._panes.get(pane, []))
        self._written = {pane: list(runs) for pane, runs in self._panes.items()}
        return entries

    def load_entries(self, entries: dict[str, bytes]) -> None:
        own = blob.unpack(entries[""])
        clock_us, watermark_us, closed_us = (own.meta[name] for name in ("clock_us", "watermark_us", "closed_us"))
        self.clock_us = int(str(clock_us))
        self.watermark_us = watermark_us if isinstance(watermark_us, int) else None
        self._closed_us = closed_us if isinstance(closed_us, int) else None
        last_us = own.meta["last_us"]
        self._log.load(last_us if isinstance(last_us, int) else None, dict(own.batches))
        self._panes = {}
        for name in sorted((name for name in entries if name), key=lambda name: int(name.partition(".")[2])):
            run = blob.unpack(entries[name]).batches["run"]
            self._panes.setdefault(int(name.partition(".")[0]), []).append(run)
        self._written = {pane: list(runs) for pane, runs in self._panes.items()}

    def state(self) -> blob.State:
        meta, batches = self._log.state()
        panes = [
            self._pane(pane).add_column(0, c.PANE, pa.repeat(pa.scalar(pane, pa.int64()), self._pane(pane).num_rows))
            for pane in sorted(self._panes)
        ]
        whole = concat(panes)
        if whole is not None:
            batches["panes"] = whole
        return blob.State(meta | {"closed_us": self._closed_us}, batches)

    def load(self, state: blob.State) -> None:
        batches = dict(state.batches)
        closed_us, last_us = state.meta["closed_us"], state.meta["last_us"]
        self._closed_us = closed_us if isinstance(closed_us, int) else None
        self._panes = {}
        if "panes" in batches:
            self._incoming, updates = [batches.pop("panes")], self._updates
            self._updates = False
            self._take_in()
            self._updates = updates
        self._log.load(last_us if isinstance(last_us, int) else None, batches)


def _changed_runs(pane: int, written: list[pa.RecordBatch], runs: list[pa.RecordBatch]) -> dict[str, bytes | None]:
    """Entries of a pane whose deltas are not the ones written; a compacted pane is written anew."""
    entries: dict[str, bytes | None] = {}
    for number in range(max(len(written), len(runs))):
        if number >= len(runs):
            entries[f"{pane}.{number}"] = None
        elif number >= len(written) or written[number] is not runs[number]:
            entries[f"{pane}.{number}"] = blob.pack(blob.State({}, {"run": runs[number]}))
    return entries


def _semi_join(states: pa.RecordBatch, chosen: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The rows of `states` whose `names` occur in `chosen`."""
    both = concat([chosen.select(names), states.select(names)])
    assert both is not None
    groups, _ = group_rows([both.column(name) for name in names], both.num_rows)
    wanted = np.zeros(groups.count, bool)
    wanted[groups.ids[: chosen.num_rows]] = True
    return select(states, wanted[groups.ids[chosen.num_rows :]])
