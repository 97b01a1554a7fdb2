"""What operators over aligned windows (tumbling, hopping) share: the plan, and which rows have no open window."""

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
from windowpane.core.rows import int64s, select
from windowpane.core.side import Key
from windowpane.core.windows.panes import AlignedWindows
from windowpane.core.windows.spec import Hopping, Tumbling

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AlignedPlan:
    """What both halves must agree on."""

    spec: Tumbling | Hopping
    keys: tuple[Key, ...]
    allowed_lateness_us: int = 0
    max_groups: int | None = None
    per_window: bool = False
    """One state per window, where panes would be too many to pay."""

    @cached_property
    def windows(self) -> AlignedWindows:
        """The windows as the state sees them."""
        return AlignedWindows.of(self.spec)

    @property
    def shared_panes(self) -> bool:
        """State per pane, shared by all windows over it. Quotas are per window, and so need state per window."""
        return isinstance(self.spec, Tumbling) or (self.max_groups is None and not self.per_window)

    @property
    def key_names(self) -> list[str]:
        return [key.name for key in self.keys]

    def closes_at(self, starts: Int64s) -> Int64s:
        """The watermark at which each window is closed."""
        return starts + self.windows.size_us + self.allowed_lateness_us

    def open_from(self, watermark_us: int) -> int:
        """The first instant that is in a window which the watermark has not closed."""
        return self.windows.next_start(watermark_us - self.windows.size_us - self.allowed_lateness_us)


class AlignedIntake(Operator):
    """Judges lateness per window, against the watermark before the micro-batch."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        self.plan, self._windows = plan, plan.windows

    def part_unplaced(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Frame]]:
        """Leave out rows in gaps between windows, and rows all of whose windows are closed."""
        ts = int64s(rows, c.TS)
        if self._windows.has_gaps:
            gap = self._windows.in_gap(ts)
            self.counts.no_window += int(gap.sum())
            rows, ts = select(rows, ~gap), ts[~gap]
        if self.watermark_us is None:
            return rows, []
        late = ts < self.plan.open_from(self.watermark_us)
        if not late.any():
            return rows, []
        self.counts.late += int(late.sum())
        return select(rows, ~late), [SideRows(self._late(select(rows, late)))]

    def _late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        missed = self._windows.last_start(int64s(rows, c.TS))
        return side.side_batch(
            "late", side.LATE_WINDOW, rows, clock_us=self.clock_us, watermark_us=self.watermark_us,
            keys=self.plan.keys, window_start=missed, window_end=missed + self._windows.size_us,
        )  # fmt: skip
