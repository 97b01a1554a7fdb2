"""State windows: from a row that opens to the row that emits, over the stream or per partition, in released order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.count_window import ranges_schema, rows_of_ranges
from windowpane.core.rows import RowBuffer, flags, select, take
from windowpane.core.state import Header
from windowpane.core.windows import State

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class StateWindow(Operator):
    """A partition has at most one open window, and the rows it keeps are that window's rows.

    The row that opens a window does not emit it, even if it matches both. Rows while no window is open, and that open
    none, are accounted `no_window`. With a single condition each matching
    row closes the window before it and opens its own.
    """

    def __init__(self, spec: State, partition_by: Sequence[str]) -> None:
        super().__init__()
        self.spec, self._partition_by = spec, tuple(partition_by)
        self._open = RowBuffer()
        self._fresh = RowBuffer()

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return ranges_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._fresh.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._take_in(), frame]

    def on_end(self) -> list[Frame]:
        frames = self._take_in()
        rows = self._open.rows()
        if rows is not None:
            groups = self._partitions(rows)
            frames.append(rows_of_ranges(take(rows, groups.order), groups.offsets[:-1], groups.offsets[1:]))
        self._open.replace(None)
        return [*frames, ControlSignal.END]

    def _partitions(self, rows: pa.RecordBatch) -> Groups:
        return group_rows([rows.column(name) for name in self._partition_by], rows.num_rows)[0]

    def _take_in(self) -> list[Frame]:
        fresh, open_count = self._fresh.rows(), len(self._open)
        self._fresh.replace(None)
        if fresh is None:
            return []
        self._open.append(fresh)
        rows = self._open.rows()
        assert rows is not None
        groups = self._partitions(rows)
        ordered = take(rows, groups.order)
        already_open = np.isin(groups.order, np.arange(open_count))[groups.offsets[:-1]]
        find = self._split_single if self.spec.single else self._split_pairs
        low, high, kept_from = find(ordered, groups.offsets, already_open)
        self._keep(ordered, groups, kept_from)
        self._count(ordered.num_rows - open_count, int((high - low).sum()) - open_count)
        return [rows_of_ranges(ordered, low, high)] if len(low) else []

    def _keep(self, ordered: pa.RecordBatch, groups: Groups, kept_from: Int64s) -> None:
        kept = np.arange(ordered.num_rows) >= kept_from[groups.ids[groups.order]]
        self._open.replace(select(ordered, kept) if kept.any() else None)

    def _count(self, fresh: int, emitted: int) -> None:
        """Count the micro-batch's rows. `emitted`: rows of the windows that closed, less those counted earlier."""
        placed = emitted + len(self._open)
        self.counts.aggregated += placed
        self.counts.no_window += fresh - placed

    def _split_pairs(
        self, ordered: pa.RecordBatch, offsets: Int64s, already_open: Bools
    ) -> tuple[Int64s, Int64s, Int64s]:
        """Windows as [low, high), and from where each partition's rows stay open (its end when none do).

        Every round finds the next window of all partitions at once.
        """
        next_open = _next_true(flags(ordered, c.OPEN))
        next_close = np.append(_next_true(flags(ordered, c.EMIT)), ordered.num_rows)
        ends, cursor = offsets[1:], offsets[:-1].copy()
        start = np.where(already_open, cursor, next_open[cursor])
        kept_from, lows, highs = ends.copy(), [], []
        active = np.flatnonzero(start < ends)
        while len(active):
            begin = start[active]
            close = next_close[begin + 1]
            complete = close < ends[active]
            kept_from[active[~complete]] = begin[~complete]
            lows.append(begin[complete])
            highs.append(close[complete] + 1)
            active = active[complete]
            cursor = close[complete] + 1
            inside = cursor < ends[active]
            active, cursor = active[inside], cursor[inside]
            start[active] = next_open[cursor]
            active = active[start[active] < ends[active]]
        return _joined(lows), _joined(highs), kept_from

    def _split_single(
        self, ordered: pa.RecordBatch, offsets: Int64s, already_open: Bools
    ) -> tuple[Int64s, Int64s, Int64s]:
        marks = flags(ordered, c.OPEN).copy()
        marks[offsets[:-1][already_open]] = True
        heads = np.flatnonzero(marks)
        partition = np.searchsorted(offsets, heads, "right") - 1
        last_of_partition = np.append(partition[1:] != partition[:-1], [True]) if len(heads) else np.zeros(0, bool)
        kept_from = offsets[1:].copy()
        kept_from[partition[last_of_partition]] = heads[last_of_partition]
        closed = ~last_of_partition
        following = np.append(heads[1:], [0]) if len(heads) else heads
        return heads[closed], following[closed], kept_from

    def open_count(self) -> int:
        rows = self._open.rows()
        return 0 if rows is None else self._partitions(rows).count

    def header(self) -> Header:
        return Header(tables=self._open.tables("open"))

    def load_header(self, header: Header) -> None:
        self._open.replace(header.tables.get("open"))


def _next_true(mask: Bools) -> Int64s:
    """For each position the nearest at or after it where the mask is true; the length where there is none."""
    where = np.where(mask, np.arange(len(mask)), len(mask))
    return np.minimum.accumulate(where[::-1])[::-1]


def _joined(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
