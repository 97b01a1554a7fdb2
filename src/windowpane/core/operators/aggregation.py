"""Operators behind an unfused window: they aggregate the rows of closed windows, or emit the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator, empty_batch
from windowpane.core.frames import Emissions, Frame, Rows, WindowRows
from windowpane.core.groups import group_rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.rows import int64s, take
from windowpane.core.side import Key
from windowpane.core.windows.ranges import rank_in_runs, run_heads

Int64s = npt.NDArray[np.int64]

CARRIED = (c.TRIGGER, c.WINDOW_SALT)
"""Columns of a window that results have too, if the window has them."""


class Aggregation(Operator):
    """Rows of closed windows in, one result per window and group out. Keeps nothing over micro-batches."""

    def __init__(self, keys: Sequence[Key], aggregator: Aggregator) -> None:
        super().__init__()
        self._keys, self._aggregator = tuple(keys), aggregator
        self._begun: list[pa.RecordBatch] = []
        """States of the window that the last frame began."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self._keys, [name for name in CARRIED if name in given.names])

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        rows = frame.batch
        by = [rows.column(name) for name in (c.WINDOW_INDEX, *(key.name for key in self._keys))]
        groups, first = group_rows(by, rows.num_rows)
        states = self._aggregator.fold_groups(rows, groups, [column.take(pa.array(first)) for column in by[1:]], [])
        heads = take(rows, first)
        if frame.continues or self._begun:
            self._begun.append(states)
            if frame.continues:
                return []
            states, self._begun = self._aggregator.merge(self._begun), []
            heads = take(rows, np.zeros(states.num_rows, np.int64))
        return self._emit(states, heads)

    def _emit(self, states: pa.RecordBatch, heads: pa.RecordBatch) -> list[Frame]:
        """Results; `heads` are rows of the windows of the states."""
        epochs = int64s(heads, c.EPOCH) if c.EPOCH in heads.schema.names else np.ones(states.num_rows, np.int64)
        return emit(
            self, self._aggregator, states, self._keys,
            start=int64s(heads, c.WINDOW_START), end=int64s(heads, c.WINDOW_END), epochs=epochs, final=True,
            extra={name: int64s(heads, name) for name in CARRIED if name in heads.schema.names},
        )  # fmt: skip


class RowEmission(Operator):
    """The rows of closed windows are the result. The epoch is a row's number within the windows of its bounds."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = 0
        """Rows of the window that the last frame began."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return _numbered(empty_batch(given), np.zeros(0, np.int64)).schema

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        within = rank_in_runs(run_heads(int64s(frame.batch, c.WINDOW_INDEX))) + 1 + self._begun
        self._begun = self._begun + frame.batch.num_rows if frame.continues else 0
        return [Emissions(_numbered(frame.batch, within))]


class PlainRows(Operator):
    """No window: released rows are the result."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return _final(empty_batch(given), np.zeros(0, np.int64)).schema

    def on_rows(self, frame: Rows) -> list[Frame]:
        count = frame.batch.num_rows
        self.counts.aggregated += count
        return [Emissions(_final(frame.batch, np.ones(count, np.int64)))]


def _numbered(rows: pa.RecordBatch, within: Int64s) -> pa.RecordBatch:
    """Rows of windows as results. `within`: each row's number in its window, from 1."""
    if c.ROWS_BEFORE in rows.schema.names:
        within = within + int64s(rows, c.ROWS_BEFORE)
        rows = rows.drop_columns([c.EPOCH, c.ROWS_BEFORE])
    return _final(rows, within)


def _final(rows: pa.RecordBatch, epochs: Int64s) -> pa.RecordBatch:
    batch = rows.append_column(c.EPOCH, pa.array(epochs))
    return batch.append_column(c.FINAL, pa.repeat(pa.scalar(value=True), rows.num_rows))
