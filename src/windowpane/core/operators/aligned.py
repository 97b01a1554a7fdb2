"""What operators over aligned windows share: the plan, and the rows that are in no open window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import Frame, SideRows
from windowpane.core.operators.base import Operator
from windowpane.core.operators.closing import closing_us
from windowpane.core.rows import int64s, select
from windowpane.core.side import Key
from windowpane.core.windows import AlignedSpec, AlignedWindows
from windowpane.core.windows.cut import Cut, CutWindows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AlignedPlan:
    """What both halves must agree on."""

    spec: AlignedSpec
    keys: tuple[Key, ...]
    allowed_lateness_us: int = 0
    max_groups: int | None = None
    per_window: bool = False
    """One state per window, because there would be too many panes."""
    closed_until_us: int | None = None
    """Windows that end here or before were closed under less allowed lateness, and stay so."""
    cut: Cut | None = None
    """Of a version of a query that another one precedes or follows."""

    @cached_property
    def windows(self) -> AlignedWindows:
        windows = self.spec.windows()
        return windows if self.cut is None else CutWindows(windows, self.cut)

    @property
    def shared_panes(self) -> bool:
        """State per pane, shared by all windows over it. Quotas are per window, and so need state per window."""
        return not self.spec.overlapping() or (self.max_groups is None and not self.per_window)

    @property
    def whole_windows(self) -> bool:
        """Whether state is kept per window, and not per pane that several windows share."""
        return not self.shared_panes or self.windows.whole_panes

    @property
    def key_names(self) -> list[str]:
        return [key.name for key in self.keys]

    def closed_for(self, keys: Int64s, watermark_us: int) -> Bools:
        """Which windows the watermark has closed: all that end `allowed_lateness` or more before it."""
        return self.windows.bounds(keys)[1] <= self.closing_us(watermark_us)

    def late_for(self, ts: Int64s, watermark_us: int) -> Bools:
        """Rows all of whose windows the watermark has closed."""
        return ts < self.windows.open_from(self.closing_us(watermark_us))

    def closing_us(self, watermark_us: int) -> int:
        """Windows that end here or before are closed."""
        return closing_us(watermark_us, self.allowed_lateness_us, self.closed_until_us)


class AlignedIntake(Operator):
    """Judges lateness per window, against the watermark before the micro-batch."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        self.plan, self._windows = plan, plan.windows

    def without_unplaced(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Frame]]:
        """The rows without those in gaps between windows and those all of whose windows are closed."""
        ts = int64s(rows, c.EVENT_TIME)
        if self._windows.has_gaps:
            gap = self._windows.in_gap(ts)
            self.counts.no_window += int(gap.sum())
            rows, ts = select(rows, ~gap), ts[~gap]
        if self.watermark_us is None:
            return rows, []
        late = self.plan.late_for(ts, self.watermark_us)
        if not late.any():
            return rows, []
        self.counts.late += int(late.sum())
        return select(rows, ~late), [SideRows(self._late(select(rows, late)))]

    def _late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        start, end = self._windows.bounds(self._windows.last_key(int64s(rows, c.EVENT_TIME)))
        return side.side_batch(
            "late", side.LATE_WINDOW, rows, clock_us=self.clock_us, watermark_us=self.watermark_us,
            keys=self.plan.keys, window_start=start, window_end=end,
        )  # fmt: skip
