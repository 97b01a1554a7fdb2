"""The results of one window stage as rows of the next one: the operator between a query and the query around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, Emissions, Frame, Rows, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import flags, int64s, select
from windowpane.core.state import Header


@dataclass(frozen=True)
class _Scalars:
    arrivals: int


class ResultsAsRows(Operator):
    """Final results in, rows out. The time of a row is the last instant of its window, or its trigger's.

    `columns`: names of the rows' columns, with the columns of the results that they are. `delay_us`: how far results
    may be behind the watermark below, so that none of them is late above: allowed lateness and one microsecond, for a
    sliding window its lookahead. Rows go first, then the watermark that covers them.
    """

    moves_time = True
    shard_scalars = ("arrivals",)

    def __init__(self, columns: Mapping[str, str], *, delay_us: int) -> None:
        super().__init__()
        self._columns, self._delay_us = dict(columns), delay_us
        self._arrivals = 0
        self._next_us: int | None = None

    def on_emissions(self, frame: Emissions) -> list[Frame]:
        final = select(frame.batch, flags(frame.batch, c.FINAL))
        if not final.num_rows:
            return []
        rows = self._rows(final)
        self._arrivals += rows.num_rows
        self.counts.in_ += rows.num_rows
        return [Rows(rows)]

    def _rows(self, results: pa.RecordBatch) -> pa.RecordBatch:
        names = results.schema.names
        times = int64s(results, c.TRIGGER) if c.TRIGGER in names else int64s(results, c.WINDOW_END) - 1
        arrivals = self._arrivals + np.arange(results.num_rows, dtype=np.int64)
        columns = {c.EVENT_TIME: pa.array(times), c.ARRIVAL: pa.array(arrivals)}
        columns |= {name: results.column(column) for name, column in self._columns.items()}
        return pa.RecordBatch.from_pydict(columns)

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self._next_us = frame.us - self._delay_us
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        target, self._next_us = self._next_us, None
        if target is None or (self.watermark_us is not None and target <= self.watermark_us):
            return [frame]
        self.watermark_us = target
        return [Watermark(target), frame]

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return self._rows(empty_batch(given)).schema

    def header(self) -> Header:
        return Header.of(_Scalars(self._arrivals))

    def load_header(self, header: Header) -> None:
        self._arrivals = header.read(_Scalars).arrivals
