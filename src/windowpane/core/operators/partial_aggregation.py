"""The first half of aggregation over aligned windows: folds rows into partial accumulators per pane.

It may run before a shuffle. `merge_aggregation.py` is the other half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Frame, Partials, Rows, SideRows, Watermark
from windowpane.core.groups import group_rows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.quota import GroupQuota, Quota
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import int64s, select, take
from windowpane.core.state import Header, StateEntries

Int64s = npt.NDArray[np.int64]


class PartialAggregation(AlignedIntake):
    """Rows in, partial accumulators out. Judges lateness per window against the watermark before the micro-batch."""

    folds = True

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator, decided: Quota | None = None) -> None:
        """`decided`: says which groups are admitted, if that is not decided here."""
        super().__init__(plan)
        self.aggregator = aggregator
        self.arrival_states, self.is_ordered = aggregator.arrival_names, aggregator.is_ordered
        limit = None if decided else plan.max_groups
        self._counting = None if limit is None else GroupQuota(limit, plan.key_names)
        self._quota: Quota | None = decided or self._counting

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.without_unplaced(frame.batch)
        if not rows.num_rows:
            return frames
        if self.plan.shared_panes and self._quota is None:
            self.counts.aggregated += rows.num_rows
            return [*frames, Partials(self._fold_panes(rows))]
        positions, keys = self._assign(int64s(rows, c.EVENT_TIME))
        if self._quota is not None:
            positions, keys = self._admit(self._quota, rows, positions, keys, frames)
        self.counts.aggregated += rows.num_rows if self._quota is None else len(np.unique(positions))
        if len(keys):
            frames.append(Partials(self.aggregator.fold(take(rows, positions), {c.PANE: keys})))
        return frames

    def _fold_panes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._windows.pane_number(int64s(rows, c.EVENT_TIME))
        keys = [rows.column(name) for name in self.plan.key_names]
        groups, first = group_rows([pa.array(numbers), *keys], rows.num_rows)
        heads = [pa.array(self._windows.pane_start(numbers[first])), *(key.take(pa.array(first)) for key in keys)]
        return self.aggregator.fold_groups(rows, groups, heads, [c.PANE])

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        if self._counting is not None:
            keys = self._counting.windows()
            self._counting.forget(keys[self.plan.closed_for(keys, frame.us)])
        return super().on_watermark(frame)

    def _assign(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """Row positions and the pane (or, unshared, every open window) each goes to."""
        if self.plan.shared_panes:
            return np.arange(len(ts)), self._windows.pane_start(self._windows.pane_number(ts))
        positions, keys = self._windows.open_for(ts)
        if self.watermark_us is None:
            return positions, keys
        still_open = ~self.plan.closed_for(keys, self.watermark_us)
        return positions[still_open], keys[still_open]

    def _admit(
        self, quota: Quota, rows: pa.RecordBatch, positions: Int64s, keys: Int64s, frames: list[Frame]
    ) -> tuple[Int64s, Int64s]:
        """Leave out what exceeds the quota; a row is evicted when none of its windows takes it."""
        order = np.argsort(positions, kind="stable")
        positions, keys = positions[order], keys[order]
        pairs = take(rows, positions).append_column(c.WINDOW_KEY, pa.array(keys))
        admitted = quota.admit(pairs)
        taken = np.zeros(rows.num_rows, bool)
        taken[positions[admitted]] = True
        if not taken.all():
            self.counts.evicted += int((~taken).sum())
            refused = np.full(rows.num_rows, 0, np.int64)
            refused[positions] = keys
            start, end = self._windows.bounds(refused[~taken])
            batch = side.side_batch(
                "evicted", side.MAX_GROUPS, select(rows, ~taken), clock_us=self.clock_us,
                watermark_us=self.watermark_us, keys=self.plan.keys, window_start=start, window_end=end,
                detail=f"the window already has {quota.max_groups} groups",
            )  # fmt: skip
            frames.append(SideRows(batch))
        return positions[admitted], keys[admitted]

    def header(self) -> Header:
        return Header() if self._counting is None else Header(tables=self._counting.tables())

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        if self._counting is not None:
            self._counting.save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        if self._counting is not None:
            self._counting.load(entries, header.tables)

    def divided(self) -> tuple[Divisible, ...]:
        return () if self._counting is None else self._counting.divided()

    def on_taken_over(self) -> None:
        if self._counting is not None:
            self._counting.recount()
