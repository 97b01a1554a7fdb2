"""The first half of aggregation over sessions: folds rows into small sessions.

It may run before a shuffle. `merge_session_aggregation.py` is the other half.
"""

from __future__ import annotations

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Frame, MaybeLateRows, Partials, Rows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.sessions import SessionPlan, fold_sessions
from windowpane.core.rows import int64s, select
from windowpane.core.windows.session import merged_sessions


class PartialSessionAggregation(Operator):
    """Rows in, sessions of this micro-batch out. Rows that would be late alone go on as they are."""

    folds = True

    def __init__(self, plan: SessionPlan, aggregator: Aggregator) -> None:
        super().__init__()
        self.plan, self._aggregator = plan, aggregator
        self.arrival_states, self.is_ordered = aggregator.arrival_names, aggregator.is_ordered

    def on_rows(self, frame: Rows) -> list[Frame]:
        maybe_late = self.plan.closed_for(int64s(frame.batch, c.EVENT_TIME), self.watermark_us)
        frames: list[Frame] = []
        if maybe_late.any():
            frames.append(MaybeLateRows(select(frame.batch, maybe_late)))
        rows = select(frame.batch, ~maybe_late)
        if rows.num_rows:
            self.counts.aggregated += rows.num_rows
            frames.append(Partials(self._fold(rows)))
        return frames

    def _fold(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        ts = int64s(rows, c.EVENT_TIME)
        found = merged_sessions(self.plan.grouped(rows)[0], ts, ts, self.plan.gap_us)
        return fold_sessions(self._aggregator, rows, found)
