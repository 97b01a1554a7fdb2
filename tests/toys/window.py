"""`cumulatewindow('ss', size, step)`: windows of one start that grow by a step up to a size, as Flink's CUMULATE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windowpane.core.windows import AlignedSpec, Part
from windowpane.core.windows.aligned import Bools, Int64s
from windowpane.time import format_duration


@dataclass(frozen=True)
class Cumulate(AlignedSpec):
    """[start, start + n * step) for n = 1 up to size / step; start is a multiple of size."""

    size_us: int
    step_us: int

    kind = "cumulate"
    parts = (Part("SIZE", "size_us", "1 HOUR"), Part("STEP", "step_us", "10 MINUTES", label="step"))

    def windows(self) -> CumulateWindows:
        return CumulateWindows(self.size_us, self.step_us)

    def longest_us(self) -> int:
        return self.size_us

    def overlapping(self) -> bool:
        return True

    def pane_us(self) -> int:
        return self.step_us

    def words(self) -> str:
        return f"cumulating, up to {format_duration(self.size_us)}, a longer one every {format_duration(self.step_us)}"


@dataclass(frozen=True)
class CumulateWindows:
    """A window's key is its end, a multiple of the step: no two windows end at the same time."""

    size_us: int
    step_us: int
    has_gaps = False
    whole_panes = False

    @property
    def key_step(self) -> int:
        return self.step_us

    def pane_number(self, ts: Int64s) -> Int64s:
        return ts // self.step_us

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers * self.step_us

    def pane_end(self, start_us: int) -> int:
        return start_us + self.step_us

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        first, last = ts // self.step_us * self.step_us + self.step_us, self.last_key(ts)
        counts = (last - first) // self.step_us + 1
        positions = np.repeat(np.arange(len(ts)), counts)
        steps = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        return positions, first[positions] + steps * self.step_us

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return (keys - 1) // self.size_us * self.size_us, keys

    def last_key(self, ts: Int64s) -> Int64s:
        return ts // self.size_us * self.size_us + self.size_us

    def in_gap(self, ts: Int64s) -> Bools:
        return np.zeros(len(ts), np.bool_)

    def open_from(self, closed_us: int) -> int:
        """Within one start, the longest window is the last to close, and holds all rows since that start."""
        return closed_us // self.size_us * self.size_us
