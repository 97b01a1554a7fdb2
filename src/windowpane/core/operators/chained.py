"""The results of one window stage as rows of the next one: the operators between a query and the query around it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Emissions, Frame, Rows, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.operators.intake import Intake
from windowpane.core.rows import Int64s, concat, flags, int64s, select
from windowpane.core.side import Key
from windowpane.core.state import Header

ENOUGH = 50_000
"""As many results become rows before the micro-batch ends."""


class RowsOfResults(Protocol):
    """Computes the rows of the outer query from results of the inner one."""

    @property
    def compares(self) -> bool:
        """Whether it needs all results of a window at once."""

    def rows(self, results: pa.RecordBatch, times: Int64s, clock_us: int) -> pa.RecordBatch:
        """Rows with EVENT_TIME, and KEEP, ERROR and DETAIL where they are needed. Results that HAVING drops give none.

        `times`: the event time that each result has unless the outer query says otherwise.
        """


@dataclass(frozen=True)
class _Scalars:
    arrivals: int


class ResultsAsRows(Operator):
    """Final results in, rows out. The time of a row is the last instant of its window, its trigger's, or that of the
    later row of a pair.

    `delay_us`: how far results may be behind the watermark below, so that none of them is late above: allowed lateness
    and one microsecond, for a sliding window its lookahead, for an interval join its longer reach. Rows go first, then
    the watermark that covers them.
    """

    moves_time = True
    shard_scalars = ("arrivals",)

    def __init__(self, computed: RowsOfResults, *, delay_us: int) -> None:
        super().__init__()
        self._computed, self._delay_us = computed, delay_us
        self._arrivals = 0
        self._next_us: int | None = None
        self._taken: list[pa.RecordBatch] = []
        """Results of this micro-batch that are not rows yet: those of many small windows are computed at once."""

    def on_emissions(self, frame: Emissions) -> list[Frame]:
        final = select(frame.batch, flags(frame.batch, c.FINAL))
        self._taken += [final] if final.num_rows else []
        enough = sum(each.num_rows for each in self._taken) >= ENOUGH and not self._computed.compares
        return self._made() if enough else []

    def _made(self) -> list[Frame]:
        """The rows of the results taken."""
        taken, self._taken = concat(self._taken), []
        rows = self._rows(taken) if taken is not None else None
        if rows is None or not rows.num_rows:
            return []
        self._arrivals += rows.num_rows
        return [Rows(rows)]

    def _rows(self, results: pa.RecordBatch) -> pa.RecordBatch:
        names = results.schema.names
        if c.TRIGGER in names:
            times = int64s(results, c.TRIGGER)
        else:
            times = int64s(results, c.WINDOW_END) - 1 if c.WINDOW_END in names else int64s(results, c.EVENT_TIME)
        rows = self._computed.rows(results, times, self.clock_us)
        arrivals = self._arrivals + np.arange(rows.num_rows, dtype=np.int64)
        return rows.append_column(c.ARRIVAL, pa.array(arrivals))

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self._next_us = frame.us - self._delay_us
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        target, self._next_us = self._next_us, None
        if target is None or (self.watermark_us is not None and target <= self.watermark_us):
            return [*self._made(), frame]
        self.watermark_us = target
        return [*self._made(), Watermark(target), frame]

    def on_end(self) -> list[Frame]:
        return [*self._made(), ControlSignal.END]

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return self._rows(empty_batch(given)).schema

    def header(self) -> Header:
        return Header.of(_Scalars(self._arrivals))

    def load_header(self, header: Header) -> None:
        self._arrivals = header.read(_Scalars).arrivals


class ResultIntake(Intake):
    """Counts the rows that results have become, and takes out filtered rows and those that cannot be computed.

    The watermark comes from below, so rows report no progress.
    """

    def __init__(self, keys: Collection[Key] = ()) -> None:
        super().__init__(keys)

    def on_rows(self, frame: Rows) -> list[Frame]:
        frames: list[Frame] = []
        rows = self._without_bad(frame.batch, frames)
        return [*frames, Rows(rows)] if rows.num_rows else frames
