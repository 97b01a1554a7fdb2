"""Aligned windows that keep their rows until they close, for queries without aggregates or with ones that need rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, WindowRows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.operators.base import Holding
from windowpane.core.operators.closing import as_judged_now
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import int64s, take
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.ranges import arithmetic_runs, chunks, expand

Int64s = npt.NDArray[np.int64]

CHUNK_ROWS = 2_000_000
"""About how many rows of windows are given at once."""
_ROWS, _OPEN = "rows", "open"
"""Names, in the state, of the rows, and of the runs of open windows."""


def window_rows(
    rows: pa.RecordBatch,
    positions: Int64s,
    *,
    index: Int64s,
    bounds: tuple[Int64s, Int64s],
    extra: dict[str, Int64s] | None = None,
    continues: bool = False,
) -> WindowRows:
    """Rows at `positions`, each in window number `index`; bounds and `extra` are given per row."""
    batch = take(rows, positions)
    named = {c.WINDOW_INDEX: index, c.WINDOW_START: bounds[0], c.WINDOW_END: bounds[1]} | (extra or {})
    for name, values in named.items():
        batch = batch.append_column(name, pa.array(values))
    return WindowRows(batch, continues)


def window_rows_schema(given: pa.Schema, extra: Sequence[str] = ()) -> pa.Schema:
    """Schema of `window_rows` for rows of schema `given` and the columns `extra`."""
    none = np.zeros(0, np.int64)
    return window_rows(
        empty_batch(given), none, index=none, bounds=(none, none), extra=dict.fromkeys(extra, none)
    ).batch.schema


def rows_of_ranges(ordered: pa.RecordBatch, low: Int64s, high: Int64s) -> Iterator[WindowRows]:
    """Windows that are ranges of rows: bounds are the first and last row's times, emitted in order of completion."""
    arrival, ts = int64s(ordered, c.ARRIVAL), int64s(ordered, c.EVENT_TIME)
    order = np.lexsort((arrival[high - 1], ts[high - 1]))
    low, high = low[order], high[order]
    kept = ordered.select([name for name in ordered.schema.names if name != c.SEQUENCE])
    for begin, end in chunks(high - low, CHUNK_ROWS):
        some = low[begin:end], high[begin:end]
        index, positions = expand(*some)
        bounds = ts[some[0]][index], ts[some[1] - 1][index]
        salt = {c.WINDOW_SALT: arrival[some[0]][index]}
        yield window_rows(kept, positions, index=index, bounds=bounds, extra=salt)


def rows_of_ranges_schema(given: pa.Schema) -> pa.Schema:
    """Schema of `rows_of_ranges` for rows of schema `given`."""
    return window_rows_schema(given, [c.WINDOW_SALT])


@dataclass(frozen=True)
class _Closed:
    closed_us: int | None
    lateness_us: int | None = None


class AlignedRowWindow(AlignedIntake):
    """Aligned windows of rows. A closing window reads the segments with its rows."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__(plan)
        self._rows, self._open = SegmentedRows(_ROWS), np.zeros(0, np.int64)
        """Rows, and the keys of open windows, sorted."""
        self._closed_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return window_rows_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.without_unplaced(frame.batch)
        self.counts.aggregated += rows.num_rows
        self._take_in(rows)
        return frames

    def _take_in(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._note_windows(rows)
            self._rows.append(rows)

    def _note_windows(self, rows: pa.RecordBatch) -> None:
        panes = np.unique(self._windows.pane_number(int64s(rows, c.EVENT_TIME)))
        keys = self._windows.keys_over(self._windows.pane_start(panes))
        if self._closed_us is not None:
            keys = keys[~self.plan.closed_for(keys, self._closed_us)]
        self._open = np.union1d(self._open, keys)

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        if self.watermark_us is not None:
            due = self.plan.closed_for(self._open, self.watermark_us)
            yield from self._emit(self._open[due])
            self._open, self._closed_us = self._open[~due], self.watermark_us
            self._rows.drop_before(self._windows.open_from(self.plan.closing_us(self.watermark_us)))
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._emit(self._open)
        self._rows.clear()
        self._open = self._open[:0]
        yield ControlSignal.END

    def _emit(self, keys: Int64s) -> Iterator[Frame]:
        """The rows of windows, as many windows at a time as fit into memory."""
        if not len(keys):
            return
        start, end = self._windows.bounds(keys)
        cuts = np.array(list(self._rows.cuts(int(start.min()), int(end.max()) - 1)), np.int64)
        for chunk in np.split(keys, np.flatnonzero(np.diff(np.searchsorted(cuts, end - 1))) + 1):
            yield from self._emit_one(int(chunk[0])) if len(chunk) == 1 else self._emit_some(chunk)

    def _emit_some(self, keys: Int64s) -> Iterator[Frame]:
        """Windows by key, their rows by (ts, arrival)."""
        start, end = self._windows.bounds(keys)
        rows = self._rows.ordered(int(start.min()), int(end.max()) - 1)
        assert rows is not None
        ts = int64s(rows, c.EVENT_TIME)
        low, high = np.searchsorted(ts, start), np.searchsorted(ts, end)
        for begin, stop in chunks(high - low, CHUNK_ROWS):
            index, positions = expand(low[begin:stop], high[begin:stop])
            bounds = start[begin:stop][index], end[begin:stop][index]
            yield window_rows(rows, positions, index=index, bounds=bounds)

    def _emit_one(self, key: int) -> Iterator[Frame]:
        """One window, in several frames if it has many rows."""
        (start,), (end,) = self._windows.bounds(np.array([key]))
        held: pa.RecordBatch | None = None
        first_us = int(start)
        for last_us in self._rows.cuts(first_us, int(end) - 1):
            rows, first_us = self._rows.ordered(first_us, last_us), last_us + 1
            if held is not None and rows is not None:
                yield _of_window(held, start, end, continues=True)
            held = held if rows is None else rows
        assert held is not None
        yield _of_window(held, start, end, continues=False)

    def open_runs(self) -> list[list[int]]:
        return arithmetic_runs(self._open, self._windows.key_step)

    def holdings(self) -> list[Holding]:
        return [Holding(_ROWS, len(self._rows), self._rows.size)] if len(self._rows) else []

    def header(self) -> Header:
        runs = pa.RecordBatch.from_pydict({"run": pa.array(self.open_runs(), pa.list_(pa.int64()))})
        return Header.of(_Closed(self._closed_us, self.plan.allowed_lateness_us), self._rows.tables() | {_OPEN: runs})

    def load_header(self, header: Header) -> None:
        closed = header.read(_Closed)
        self._closed_us = as_judged_now(closed.closed_us, closed.lateness_us, self.plan.allowed_lateness_us)

    def save(self, entries: StateEntries) -> None:
        self._rows.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        tables = self.read_header(entries).tables
        if _OPEN not in tables:
            if _ROWS in tables:
                self._take_in(tables[_ROWS])
            return
        self._rows = SegmentedRows.loaded(_ROWS, entries, tables)
        runs = tables[_OPEN].column("run").to_pylist()
        keys = [np.arange(count) * step + first for first, step, count in runs]
        self._open = np.concatenate([self._open, *keys])

    def divided(self) -> tuple[Divisible, ...]:
        return (self._rows,)

    def on_taken_over(self) -> None:
        for rows in self._rows.between():
            self._note_windows(rows)


def _of_window(rows: pa.RecordBatch, start: np.int64, end: np.int64, *, continues: bool) -> WindowRows:
    """All of the rows are of one window."""
    count = rows.num_rows
    bounds = np.full(count, start), np.full(count, end)
    return window_rows(rows, np.arange(count), index=np.zeros(count, np.int64), bounds=bounds, continues=continues)
