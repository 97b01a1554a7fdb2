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

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Frame
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.operators.row_windows import window_rows, window_rows_schema
from windowpane.core.operators.triggers import SlidingOperator, Triggers, kept_columns
from windowpane.core.rows import int64s, take
from windowpane.core.side import Key
from windowpane.core.windows import Sliding
from windowpane.core.windows.ranges import CellIndex, expand

Int64s = npt.NDArray[np.int64]

CHUNK = 2_000_000
"""About how many (trigger, group) pairs, or rows of unfused windows, are processed at once."""


class SlidingWindow(SlidingOperator):
    """Gives the rows of every window: input of Aggregation, or results."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        kept = pa.schema([given.field(name) for name in kept_columns(given)])
        return window_rows_schema(kept, [c.TRIGGER, c.EPOCH, c.ROWS_BEFORE])

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        cells = CellIndex(partitions, int64s(rows, c.EVENT_TIME))
        ordered = _in_order(rows, cells)
        low, high = cells.ranges(
            triggers.partition, triggers.at_us - self.spec.lookback_us, triggers.at_us + self.lookahead_us
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
            bounds = at_us - self.spec.lookback_us, at_us + self.lookahead_us
            yield window_rows(ordered, positions, index=owner, bounds=bounds, extra=extra)


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


class SlidingAggregation(SlidingOperator):
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

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self._keys, [c.TRIGGER])

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        keys = [rows.column(key.name) for key in self._keys]
        groups, first_row = self._cell_groups(rows, partitions, keys)
        index = CellIndex(groups, int64s(rows, c.EVENT_TIME))
        cells = _Cells(index, _in_order(rows, index), [column.take(pa.array(first_row)) for column in keys])
        cell_order = np.argsort(partitions.ids[first_row], kind="stable")
        cell_counts = np.bincount(partitions.ids[first_row], minlength=partitions.count)
        for first, last in _chunks(cell_counts[triggers.partition], CHUNK):
            chunk = triggers.slice(first, last)
            owner, cell = _pairs(chunk, cell_order, cell_counts)
            yield from self._emit_pairs(cells, chunk, owner, cell)

    def _cell_groups(self, rows: pa.RecordBatch, partitions: Groups, keys: Sequence[pa.Array]) -> tuple[Groups, Int64s]:
        """Rows grouped by partition and keys, and the first row of each group."""
        if all(key.name in self._partition_by for key in self._keys):
            return partitions, partitions.order[partitions.offsets[:-1]]
        return group_rows([pa.array(partitions.ids), *keys], rows.num_rows)

    def _emit_pairs(self, cells: _Cells, triggers: Triggers, owner: Int64s, cell: Int64s) -> list[Frame]:
        at_us = triggers.at_us[owner]
        start, end = at_us - self.spec.lookback_us, at_us + self.lookahead_us
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
