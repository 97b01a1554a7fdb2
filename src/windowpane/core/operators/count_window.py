"""Count windows: every `step` rows, the last `count` rows, in released order, over the stream or per partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows
from windowpane.core.groups import group_rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.row_windows import window_rows, window_rows_schema
from windowpane.core.rows import RowBuffer, concat, int64s, select, take
from windowpane.core.state import Header
from windowpane.core.windows import Count
from windowpane.core.windows.ranges import expand

Int64s = npt.NDArray[np.int64]


class CountWindow(Operator):
    """Window j of a partition is its rows [j*step, j*step+count). Windows are emitted as soon as they are full.

    Rows between windows (step larger than count) are accounted `no_window`.
    """

    def __init__(self, spec: Count, partition_by: Sequence[str]) -> None:
        super().__init__()
        self.spec, self._partition_by = spec, tuple(partition_by)
        self._rows, self._totals = RowBuffer(), RowBuffer()

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return ranges_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        numbered = self._number(frame.batch)
        inside = int64s(numbered, c.SEQUENCE) % self.spec.step < self.spec.count
        self.counts.no_window += int((~inside).sum())
        self.counts.aggregated += int(inside.sum())
        self._rows.append(select(numbered, inside))
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._emit(incomplete=False), frame]

    def on_end(self) -> list[Frame]:
        frames = self._emit(incomplete=True)
        self._rows.replace(None)
        return [*frames, ControlSignal.END]

    def _number(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Number the rows within their partitions, continuing from the last micro-batch."""
        heads = [rows.column(name) for name in self._partition_by]
        fresh = pa.RecordBatch.from_arrays(
            [*heads, pa.array(np.ones(rows.num_rows, np.int64))], [*self._partition_by, c.SEQUENCE]
        )
        known = self._totals.rows()
        whole = fresh if known is None else concat([known, fresh])
        assert whole is not None
        groups, first = group_rows([whole.column(name) for name in self._partition_by], whole.num_rows)
        steps = int64s(whole, c.SEQUENCE)
        running = np.cumsum(steps[groups.order])
        before = np.concatenate([[0], running])[groups.offsets[:-1]]
        numbers = np.empty(len(steps), np.int64)
        numbers[groups.order] = running - before[groups.ids[groups.order]] - 1
        totals = np.zeros(groups.count, np.int64)
        np.add.at(totals, groups.ids, steps)
        self._totals.replace(take(whole, first).set_column(len(heads), c.SEQUENCE, pa.array(totals)))
        return rows.append_column(c.SEQUENCE, pa.array(numbers[whole.num_rows - rows.num_rows :]))

    def _emit(self, *, incomplete: bool) -> list[Frame]:
        """Emit full windows; with `incomplete` also those that have begun. Then drop rows that no later window has."""
        rows = self._rows.rows()
        if rows is None:
            return []
        groups, _ = group_rows([rows.column(name) for name in self._partition_by], rows.num_rows)
        ordered, owner = take(rows, groups.order), groups.ids[groups.order]
        sequence = int64s(ordered, c.SEQUENCE)
        first, last = sequence[groups.offsets[:-1]], sequence[groups.offsets[1:] - 1]
        partition, number = expand(*self._numbers(first, last, incomplete=incomplete))
        frames = self._windows(ordered, owner, sequence, partition, number) if len(number) else []
        _, next_number = self._numbers(first, last, incomplete=False)
        needed = sequence >= (next_number * self.spec.step)[owner]
        self._rows.replace(select(ordered, needed) if needed.any() else None)
        return frames

    def _windows(
        self, ordered: pa.RecordBatch, owner: Int64s, sequence: Int64s, partition: Int64s, number: Int64s
    ) -> list[Frame]:
        width = int(sequence.max()) + self.spec.count + 2
        where = owner * width + sequence
        low = np.searchsorted(where, partition * width + number * self.spec.step)
        high = np.searchsorted(where, partition * width + number * self.spec.step + self.spec.count)
        high = np.minimum(high, np.searchsorted(where, (partition + 1) * width))
        return [rows_of_ranges(ordered, low, high)]

    def _numbers(self, first: Int64s, last: Int64s, *, incomplete: bool) -> tuple[Int64s, Int64s]:
        """Window numbers [low, high) of each partition, whose kept rows are numbered from `first` to `last`."""
        low = -(-first // self.spec.step)
        full = (last + 1 - self.spec.count) // self.spec.step + 1
        return low, np.maximum(low, last // self.spec.step + 1 if incomplete else full)

    def open_count(self) -> int:
        rows = self._rows.rows()
        if rows is None:
            return 0
        groups, _ = group_rows([rows.column(name) for name in self._partition_by], rows.num_rows)
        sequence = int64s(rows, c.SEQUENCE)[groups.order]
        low, high = self._numbers(sequence[groups.offsets[:-1]], sequence[groups.offsets[1:] - 1], incomplete=True)
        return int((high - low).sum())

    def header(self) -> Header:
        return Header(tables=self._rows.tables("rows") | self._totals.tables("totals"))

    def load_header(self, header: Header) -> None:
        self._rows.replace(header.tables.get("rows"))
        self._totals.replace(header.tables.get("totals"))


def rows_of_ranges(ordered: pa.RecordBatch, low: Int64s, high: Int64s) -> Frame:
    """Windows that are ranges of rows: bounds are the first and last row's times, emitted in order of completion."""
    arrival, ts = int64s(ordered, c.ARRIVAL), int64s(ordered, c.EVENT_TIME)
    order = np.lexsort((arrival[high - 1], ts[high - 1]))
    low, high = low[order], high[order]
    index, positions = expand(low, high)
    kept = [name for name in ordered.schema.names if name != c.SEQUENCE]
    bounds = ts[low][index], ts[high - 1][index]
    salt = {c.WINDOW_SALT: arrival[low][index]}
    return window_rows(ordered.select(kept), positions, index=index, bounds=bounds, extra=salt)


def ranges_schema(given: pa.Schema) -> pa.Schema:
    """Schema of `rows_of_ranges` for rows of schema `given`."""
    return window_rows_schema(given, [c.WINDOW_SALT])
