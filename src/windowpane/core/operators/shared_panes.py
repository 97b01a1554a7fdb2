"""One fold for several windows over the same rows: rows become accumulators of panes that all of the windows are made
of, and each window gets its own panes from them.

It runs before a shuffle, and replaces the partial aggregation of each window. What a window gets is what it would have
folded by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Frame, Partials, Rows, SideRows
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.rows import int64s, select

Int64s = npt.NDArray[np.int64]


class PaneFolding(Operator):
    """Rows in, accumulators per pane and group out, and the rows: the shares judge which of them are late."""

    folds = True

    def __init__(self, pane_us: int, offset_us: int, aggregator: Aggregator) -> None:
        super().__init__()
        self._pane_us, self._offset_us, self._aggregator = pane_us, offset_us, aggregator
        self.keys = aggregator.keys

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows = frame.batch
        numbers = (int64s(rows, c.EVENT_TIME) - self._offset_us) // self._pane_us
        keys = [rows.column(name) for name in self.keys]
        groups, first = group_rows([pa.array(numbers), *keys], rows.num_rows)
        starts = numbers[first] * self._pane_us + self._offset_us
        heads = [pa.array(starts), *(key.take(pa.array(first)) for key in keys)]
        return [Partials(self._aggregator.fold_groups(rows, groups, heads, [c.PANE])), frame]

    def merged(self, panes: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """The accumulators of several batches of rows as one."""
        return self._aggregator.merge(panes, [c.PANE])


@dataclass(frozen=True)
class PaneKeys:
    """Accumulators of shared panes, and which of them have equal keys: found once for all windows."""

    batch: pa.RecordBatch
    groups: Groups

    @classmethod
    def of(cls, batch: pa.RecordBatch, keys: Sequence[str]) -> PaneKeys:
        return cls(batch, group_rows([batch.column(name) for name in keys], batch.num_rows)[0])


class PaneShare:
    """What one window makes of the panes, and of rows that are late for it.

    `columns`: for each key and state column of `aggregator`, its name among the shared ones. The keys of `plan` have
    the shared names.
    """

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator, columns: Mapping[str, str]) -> None:
        self._plan, self._aggregator, self._columns = plan, aggregator, columns
        self._judge = AlignedIntake(plan)

    def begin(self, clock_us: int, watermark_us: int | None) -> None:
        """Start a micro-batch, whose rows are judged against this watermark."""
        self._judge.clock_us, self._judge.watermark_us = clock_us, watermark_us

    @property
    def watermark_us(self) -> int | None:
        return self._judge.watermark_us

    @property
    def counts(self) -> Accounting:
        return self._judge.counts

    def side_rows(self, rows: pa.RecordBatch, earliest_us: int) -> list[Frame]:
        """Count the rows; late ones are given. `earliest_us`: no row is earlier."""
        if not self._plan.windows.has_gaps and self._is_open(earliest_us):
            self.counts.aggregated += rows.num_rows
            return []
        taken, frames = self._judge.without_unplaced(rows)
        self.counts.aggregated += taken.num_rows
        return frames

    def _is_open(self, us: int) -> bool:
        watermark_us = self.watermark_us
        return watermark_us is None or not self._plan.late_for(np.array([us]), watermark_us)[0]

    def panes(self, shared: PaneKeys) -> Partials | None:
        """The panes of this window; None if all are late. All rows of a shared pane are in the same windows."""
        starts = int64s(shared.batch, c.PANE)
        taken = self._taken(starts)
        if not taken.any():
            return None
        numbers = self._plan.windows.pane_number(starts[taken])
        own = select(self._own(shared.batch), taken)
        by = [pa.array(numbers), pa.array(shared.groups.ids[taken])]
        groups, first = group_rows(by, own.num_rows)
        heads = [pa.array(self._plan.windows.pane_start(numbers[first]))]
        if groups.count == own.num_rows:
            return Partials(own.set_column(0, c.PANE, heads[0]))
        heads += [own.column(name).take(pa.array(first)) for name in self._aggregator.keys]
        return Partials(self._aggregator.merge_groups(own, groups, heads, [c.PANE]))

    def _taken(self, starts: Int64s) -> npt.NDArray[np.bool_]:
        """Panes whose rows are in an open window."""
        taken = np.ones(len(starts), np.bool_)
        if self._plan.windows.has_gaps:
            taken &= ~self._plan.windows.in_gap(starts)
        if self.watermark_us is not None:
            taken &= ~self._plan.late_for(starts, self.watermark_us)
        return taken

    def _own(self, shared: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of this window, by its own names."""
        schema = self._aggregator.state_schema([c.PANE])
        arrays = [shared.column(self._columns.get(name, name)) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def judged_at(frame: SideRows, watermark_us: int | None) -> SideRows:
    """Side rows that several windows have in common, as those of one with this watermark."""
    batch = frame.batch
    column = pa.repeat(pa.scalar(watermark_us, pa.int64()), batch.num_rows)
    return SideRows(batch.set_column(batch.schema.get_field_index("watermark_us"), "watermark_us", column))
