"""Aligned windows that keep their rows until they close, for queries without aggregates or with ones that need rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, WindowRows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.rows import RowBuffer, int64s, select, take
from windowpane.core.state import Header
from windowpane.core.windows.ranges import arithmetic_runs

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


class AlignedRowWindow(AlignedIntake):
    """Aligned windows of rows."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__(plan)
        self._rows = RowBuffer()
        self._closed_us: int | None = None

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return window_rows_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.without_unplaced(frame.batch)
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
