"""Windows that keep their rows until they close: for queries without aggregates, and aggregates that need all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, SideRows, WindowRows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.rows import RowBuffer, int64s, select, take
from windowpane.core.state import Header
from windowpane.core.windows.ranges import arithmetic_runs
from windowpane.core.windows.session import Segments, merged_sessions

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def window_rows(
    rows: pa.RecordBatch,
    positions: Int64s,
    *,
    index: Int64s,
    bounds: tuple[Int64s, Int64s],
    extra: dict[str, Int64s] | None = None,
) -> WindowRows:
    """Rows at `positions`, each in window number `index`; bounds and `extra` are given per row."""
    batch = take(rows, positions)
    named = {c.WINDOW_INDEX: index, c.WINDOW_START: bounds[0], c.WINDOW_END: bounds[1]} | (extra or {})
    for name, values in named.items():
        batch = batch.append_column(name, pa.array(values))
    return WindowRows(batch)


def window_rows_schema(given: pa.Schema, extra: Sequence[str] = ()) -> pa.Schema:
    """Schema of `window_rows` for rows of schema `given` and the columns `extra`."""
    none = np.zeros(0, np.int64)
    return window_rows(
        empty_batch(given), none, index=none, bounds=(none, none), extra=dict.fromkeys(extra, none)
    ).batch.schema


@dataclass(frozen=True)
class _Closed:
    closed_us: int | None


@dataclass(frozen=True)
class _Judged:
    judged_us: int | None


class AlignedRowWindow(AlignedIntake):
    """Aligned windows of rows."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__(plan)
        self._rows = RowBuffer()
        self._closed_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return window_rows_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.part_unplaced(frame.batch)
        self.counts.aggregated += rows.num_rows
        self._rows.append(rows)
        return frames

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        if self.watermark_us is None:
            return [frame]
        frames = self._emit(self.watermark_us)
        self._closed_us = self.watermark_us
        self._drop_closed(self.watermark_us)
        return [*frames, frame]

    def on_end(self) -> list[Frame]:
        frames = self._emit(None)
        self._rows.replace(None)
        return [*frames, ControlSignal.END]

    def _emit(self, watermark_us: int | None) -> list[Frame]:
        """The rows of windows that close between the last time and `watermark_us`; of all open ones for None."""
        rows = self._rows.rows()
        if rows is None:
            return []
        positions, keys = self._windows.open_for(int64s(rows, c.EVENT_TIME))
        due = np.ones(len(keys), bool) if watermark_us is None else self.plan.closed_for(keys, watermark_us)
        if self._closed_us is not None:
            due &= ~self.plan.closed_for(keys, self._closed_us)
        if not due.any():
            return []
        positions, keys = positions[due], keys[due]
        order = np.lexsort((int64s(rows, c.ARRIVAL)[positions], int64s(rows, c.EVENT_TIME)[positions], keys))
        positions, keys = positions[order], keys[order]
        index = np.cumsum(np.concatenate([[False], keys[1:] != keys[:-1]]))
        return [window_rows(rows, positions, index=index, bounds=self._windows.bounds(keys))]

    def _drop_closed(self, watermark_us: int) -> None:
        rows = self._rows.rows()
        if rows is not None:
            last = self._windows.last_key(int64s(rows, c.EVENT_TIME))
            self._rows.replace(select(rows, ~self.plan.closed_for(last, watermark_us)))

    def open_runs(self) -> list[list[int]]:
        rows = self._rows.rows()
        if rows is None:
            return []
        keys = np.unique(self._windows.open_for(int64s(rows, c.EVENT_TIME))[1])
        if self._closed_us is not None:
            keys = keys[~self.plan.closed_for(keys, self._closed_us)]
        return arithmetic_runs(keys, self._windows.key_step)

    def header(self) -> Header:
        return Header.of(_Closed(self._closed_us), self._rows.tables("rows"))

    def load_header(self, header: Header) -> None:
        self._closed_us = header.read(_Closed).closed_us
        self._rows.replace(header.tables.get("rows"))


class SessionRowWindow(Operator):
    """Sessions of rows, one per group of the plan's keys."""

    def __init__(self, plan: SessionPlan) -> None:
        super().__init__()
        self.plan = plan
        self._open, self._fresh = RowBuffer(), RowBuffer()
        self._judged_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return window_rows_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._fresh.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        frames = [*self._take_in(), *self._close_for(self.watermark_us)]
        self._judged_us = self.watermark_us
        return [*frames, frame]

    def on_end(self) -> list[Frame]:
        frames = self._take_in()
        rows = self._open.rows()
        if rows is not None:
            frames += self._emit(rows)
        self._open.replace(None)
        return [*frames, ControlSignal.END]

    def _take_in(self) -> list[Frame]:
        """Judge the micro-batch's rows after joining them with the open sessions."""
        fresh, count_open = self._fresh.rows(), len(self._open)
        self._fresh.replace(None)
        if fresh is None:
            return []
        self._open.append(fresh)
        whole = self._open.rows()
        assert whole is not None
        found = self._segments(whole)
        late = self.plan.closed_for(found.last, self._judged_us)[found.groups.ids]
        self._open.replace(select(whole, ~late))
        self.counts.late += int(late.sum())
        self.counts.aggregated += int((~late[count_open:]).sum())
        if not late.any():
            return []
        missed = found.groups.ids[late]
        batch = side.side_batch(
            "late", side.LATE_WINDOW, select(whole, late), clock_us=self.clock_us, watermark_us=self._judged_us,
            keys=self.plan.keys, window_start=found.first[missed], window_end=found.last[missed] + self.plan.gap_us,
        )  # fmt: skip
        return [SideRows(batch)]

    def _segments(self, rows: pa.RecordBatch) -> Segments:
        ts = int64s(rows, c.EVENT_TIME)
        return merged_sessions(self.plan.grouped(rows)[0], ts, ts, self.plan.gap_us)

    def _close_for(self, watermark_us: int | None) -> list[Frame]:
        rows = self._open.rows()
        if rows is None:
            return []
        found = self._segments(rows)
        closed = self.plan.closed_for(found.last, watermark_us)[found.groups.ids]
        self._open.replace(select(rows, ~closed))
        return self._emit(select(rows, closed)) if closed.any() else []

    def _emit(self, rows: pa.RecordBatch) -> list[Frame]:
        """Sessions in order of their end; rows of each by (ts, arrival)."""
        found = self._segments(rows)
        rank = np.empty(found.groups.count, np.int64)
        rank[np.lexsort((found.first, found.last))] = np.arange(found.groups.count)
        index = rank[found.groups.ids]
        order = np.lexsort((int64s(rows, c.ARRIVAL), int64s(rows, c.EVENT_TIME), index))
        ids = found.groups.ids[order]
        bounds = found.first[ids], found.last[ids] + self.plan.gap_us
        return [window_rows(rows, order, index=index[order], bounds=bounds)]

    def open_count(self) -> int:
        rows = self._open.rows()
        return 0 if rows is None else self._segments(rows).groups.count

    def header(self) -> Header:
        return Header.of(_Judged(self._judged_us), self._open.tables("open"))

    def load_header(self, header: Header) -> None:
        self._judged_us = header.read(_Judged).judged_us
        self._open.replace(header.tables.get("open"))
