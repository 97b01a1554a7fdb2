"""Sliding windows: every trigger row has a window [t-lookback, t+lookahead] of its own, over the stream or partition.

Two operators with the same results: SlidingWindow gives the rows of each window, SlidingAggregation the results
directly. Both need rows in released order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import blob
from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.results import emit
from windowpane.core.operators.row_windows import window_rows
from windowpane.core.rows import RowBuffer, flags, int64s, select, take
from windowpane.core.side import Key
from windowpane.core.windows.ranges import CellIndex, expand, rank_in_runs, run_heads
from windowpane.core.windows.spec import Sliding

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CHUNK = 2_000_000
"""At most about so many (trigger, group) pairs, or rows of unfused windows, are worked on at once."""


@dataclass(frozen=True)
class Triggers:
    """Windows to emit, in order: their instants, the partition each looks at, and which of equal ones it is."""

    at_us: Int64s
    partition: Int64s
    epoch: Int64s

    def __len__(self) -> int:
        return len(self.at_us)

    def slice(self, low: int, high: int) -> Triggers:
        return Triggers(self.at_us[low:high], self.partition[low:high], self.epoch[low:high])


class _SlidingBase(Operator):
    """Keeps the rows that some window can still need, and the triggers whose right edge is not covered yet."""

    def __init__(self, spec: Sliding, partition_by: Sequence[str], keys: Sequence[Key], *, conditional: bool) -> None:
        super().__init__()
        self.spec, self._partition_by, self._conditional = spec, tuple(partition_by), conditional
        self._keys = tuple(keys)
        self._rows = RowBuffer()

    @property
    def _lookahead_us(self) -> int:
        return self.spec.lookahead_us or 0

    def on_rows(self, frame: Rows) -> list[Frame]:
        self.counts.aggregated += frame.batch.num_rows
        rows = frame.batch
        pending = flags(rows, c.WHEN) if self._conditional else np.ones(rows.num_rows, bool)
        self._rows.append(rows.append_column(c.PENDING, pa.array(pending)))
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._fire(everything=False), frame]

    def on_end(self) -> list[Frame]:
        frames = self._fire(everything=True)
        self._rows.replace(None)
        return [*frames, ControlSignal.END]

    def _fire(self, *, everything: bool) -> list[Frame]:
        rows = self._rows.rows()
        if rows is None:
            return []
        pending = flags(rows, c.PENDING)
        ts = int64s(rows, c.TS)
        due = pending & (everything | self._covered(ts))
        frames: list[Frame] = []
        if due.any():
            partitions, told_apart = self._groups(rows, self._partition_by), self._groups(rows, self._told_apart_by)
            triggers = Triggers(ts[due], partitions.ids[due], _epochs(ts[due], told_apart.take(np.flatnonzero(due))))
            frames = list(self._emit(rows, partitions, triggers))
        self._keep(rows, pending & ~due)
        return frames

    @property
    def _told_apart_by(self) -> list[str]:
        """The partition columns that a result shows: windows that differ in others need epochs of their own."""
        shown = {key.name for key in self._keys}
        return [name for name in self._partition_by if name in shown]

    @staticmethod
    def _groups(rows: pa.RecordBatch, names: Sequence[str]) -> Groups:
        return group_rows([rows.column(name) for name in names], rows.num_rows)[0]

    def _covered(self, ts: Int64s) -> Bools:
        """Without lookahead a trigger is due when its row is released, with it once the watermark reaches its edge."""
        if self.spec.lookahead_us is None:
            return np.ones(len(ts), bool)
        if self.watermark_us is None:
            return np.zeros(len(ts), bool)
        return ts + self.spec.lookahead_us <= self.watermark_us

    def _keep(self, rows: pa.RecordBatch, pending: Bools) -> None:
        """Trim what neither a pending trigger nor one to come can reach."""
        ts = int64s(rows, c.TS)
        index = rows.schema.get_field_index(c.PENDING)
        rows = rows.set_column(index, c.PENDING, pa.array(pending))
        reach = [int(ts[pending].min())] if pending.any() else []
        reach += [] if self.watermark_us is None else [self.watermark_us]
        needed = ts >= min(reach) - self.spec.lookback_us if reach else np.ones(len(ts), bool)
        self._rows.replace(select(rows, needed) if needed.any() else None)

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        """The windows of `triggers`, in their order."""
        raise NotImplementedError

    def open_count(self) -> int:
        """Triggers whose window is not covered yet."""
        rows = self._rows.rows()
        return 0 if rows is None else int(flags(rows, c.PENDING).sum())

    def next_deadline_us(self) -> int | None:
        """When the earliest pending trigger is due: in processing time something must wake the operator then."""
        rows = self._rows.rows()
        if rows is None or not flags(rows, c.PENDING).any():
            return None
        return int(int64s(rows, c.TS)[flags(rows, c.PENDING)].min()) + self._lookahead_us

    def state(self) -> blob.State:
        return blob.State({}, self._rows.batches("rows"))

    def load(self, state: blob.State) -> None:
        self._rows.replace(state.batches.get("rows"))


def _epochs(at_us: Int64s, groups: Groups) -> Int64s:
    """Triggers with equal instant and group have results of equal identity but for the epoch, which counts from 1."""
    if groups.count == 1:
        return rank_in_runs(run_heads(at_us)) + 1
    epochs = np.empty(len(at_us), np.int64)
    epochs[groups.order] = rank_in_runs(run_heads(groups.ids[groups.order], at_us[groups.order])) + 1
    return epochs


class SlidingWindow(_SlidingBase):
    """Gives the rows of every window, for Aggregation or as they are."""

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        cells = CellIndex(partitions, int64s(rows, c.TS))
        ordered = _in_order(rows, cells).drop_columns([c.PENDING])
        low, high = cells.ranges(
            triggers.partition, triggers.at_us - self.spec.lookback_us, triggers.at_us + self._lookahead_us
        )
        before = _rows_before(triggers.at_us, high - low)
        for first, last in _chunks(high - low, CHUNK):
            owner, positions = expand(low[first:last], high[first:last])
            at_us = triggers.at_us[first:last][owner]
            extra = {
                c.TRIGGER: at_us,
                c.EPOCH: triggers.epoch[first:last][owner],
                c.ROWS_BEFORE: before[first:last][owner],
            }
            bounds = at_us - self.spec.lookback_us, at_us + self._lookahead_us
            yield window_rows(ordered, positions, owner, bounds, extra)


def _rows_before(at_us: Int64s, sizes: Int64s) -> Int64s:
    """For each window, how many rows the windows of the same instant before it have. Instants do not decrease."""
    before = np.cumsum(sizes) - sizes
    return before - before[np.searchsorted(at_us, at_us)]


@dataclass(frozen=True)
class _Cells:
    """Rows by (partition, group), and the keys of each such cell."""

    index: CellIndex
    rows: pa.RecordBatch
    heads: list[pa.Array]


class SlidingAggregation(_SlidingBase):
    """Results of every window without visiting its rows one by one: all windows are ranges of rows sorted by group."""

    def __init__(
        self,
        spec: Sliding,
        partition_by: Sequence[str],
        keys: Sequence[Key],
        aggregator: Aggregator,
        *,
        conditional: bool,
    ) -> None:
        super().__init__(spec, partition_by, keys, conditional=conditional)
        self._aggregator = aggregator

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        keys = [rows.column(key.name) for key in self._keys]
        groups, first_row = group_rows([pa.array(partitions.ids), *keys], rows.num_rows)
        index = CellIndex(groups, int64s(rows, c.TS))
        cells = _Cells(index, _in_order(rows, index), [column.take(pa.array(first_row)) for column in keys])
        cell_order = np.argsort(partitions.ids[first_row], kind="stable")
        cell_counts = np.bincount(partitions.ids[first_row], minlength=partitions.count)
        for first, last in _chunks(cell_counts[triggers.partition], CHUNK):
            chunk = triggers.slice(first, last)
            owner, cell = _pairs(chunk, cell_order, cell_counts)
            yield from self._emit_pairs(cells, chunk, owner, cell)

    def _emit_pairs(self, cells: _Cells, triggers: Triggers, owner: Int64s, cell: Int64s) -> list[Frame]:
        at_us = triggers.at_us[owner]
        start, end = at_us - self.spec.lookback_us, at_us + self._lookahead_us
        low, high = cells.index.ranges(cell, start, end)
        present = high > low
        low, high, cell = low[present], high[present], cell[present]
        keys = [column.take(pa.array(cell)) for column in cells.heads]
        states = self._aggregator.over_ranges(cells.rows, low, high, keys)
        return emit(
            self, self._aggregator, states, self._keys, start=start[present], end=end[present],
            epochs=triggers.epoch[owner][present], final=True, extra={c.TRIGGER: at_us[present]},
        )  # fmt: skip


def _pairs(triggers: Triggers, cell_order: Int64s, cell_counts: Int64s) -> tuple[Int64s, Int64s]:
    """Every (trigger, cell of its partition)."""
    offsets = np.cumsum(cell_counts) - cell_counts
    low = offsets[triggers.partition]
    owner, slots = expand(low, low + cell_counts[triggers.partition])
    return owner, cell_order[slots]


def _in_order(rows: pa.RecordBatch, cells: CellIndex) -> pa.RecordBatch:
    return rows if cells.order is None else take(rows, cells.order)


def _chunks(sizes: Int64s, limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive [first, last) of elements whose sizes add up to about `limit`, at least one each."""
    total = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        done = int(total[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + limit, "right")))
        yield first, last
        first = last
