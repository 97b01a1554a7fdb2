"""After an unfused window: aggregate the rows of closed windows, or pass them on as the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Emissions, Frame, Rows, WindowRows
from windowpane.core.groups import group_rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.results import emit
from windowpane.core.rows import int64s, take
from windowpane.core.side import Key
from windowpane.core.windows.ranges import rank_in_runs, run_heads

CARRIED = (c.TRIGGER, c.WINDOW_SALT)
"""Columns of a window that results keep where the window has them."""


class Aggregation(Operator):
    """Rows of closed windows in, one result per (window, group) out. Holds nothing."""

    def __init__(self, keys: Sequence[Key], aggregator: Aggregator) -> None:
        super().__init__()
        self._keys, self._aggregator = tuple(keys), aggregator

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        rows = frame.batch
        by = [rows.column(name) for name in (c.WINDOW_INDEX, *(key.name for key in self._keys))]
        groups, first = group_rows(by, rows.num_rows)
        states = self._aggregator.fold_groups(rows, groups, [column.take(pa.array(first)) for column in by[1:]], [])
        heads = take(rows, first)
        epochs = int64s(heads, c.EPOCH) if c.EPOCH in heads.schema.names else np.ones(len(first), np.int64)
        return emit(
            self, self._aggregator, states, self._keys,
            start=int64s(heads, c.WINDOW_START), end=int64s(heads, c.WINDOW_END), epochs=epochs, final=True,
            extra={name: int64s(heads, name) for name in CARRIED if name in heads.schema.names},
        )  # fmt: skip


class RowEmission(Operator):
    """The rows of closed windows are the result. The epoch is a row's number within the windows of its bounds."""

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        index = int64s(frame.batch, c.WINDOW_INDEX)
        within = rank_in_runs(run_heads(index)) + 1
        batch = frame.batch
        if c.ROWS_BEFORE in batch.schema.names:
            within = within + int64s(batch, c.ROWS_BEFORE)
            batch = batch.drop_columns([c.EPOCH, c.ROWS_BEFORE])
        batch = batch.append_column(c.EPOCH, pa.array(within))
        return [Emissions(batch.append_column(c.FINAL, pa.repeat(pa.scalar(value=True), len(index))))]


class PlainRows(Operator):
    """No window: released rows are the result."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        count = frame.batch.num_rows
        self.counts.aggregated += count
        batch = frame.batch.append_column(c.EPOCH, pa.array(np.ones(count, np.int64)))
        return [Emissions(batch.append_column(c.FINAL, pa.repeat(pa.scalar(value=True), count)))]
