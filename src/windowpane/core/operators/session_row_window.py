"""Sessions that keep their rows until they close: for queries whose aggregates need all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, SideRows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.row_windows import window_rows, window_rows_schema
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.rows import RowBuffer, int64s, select
from windowpane.core.state import Header
from windowpane.core.windows.session import Segments, merged_sessions


@dataclass(frozen=True)
class _Judged:
    judged_us: int | None


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
