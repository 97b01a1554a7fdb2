"""Aligned windows (tumbling, hopping) over columns: which pane a row is in, which windows a pane belongs to.

All by floor division, so that times before 1970 are right: a row at -1 with size 10 is in [-10, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windowpane.core.windows.spec import Hopping, Tumbling

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AlignedWindows:
    """Tumbling windows are hopping windows whose slide is their size."""

    size_us: int
    slide_us: int
    offset_us: int
    pane_us: int

    @classmethod
    def of(cls, spec: Tumbling | Hopping) -> AlignedWindows:
        if isinstance(spec, Tumbling):
            return cls(spec.size_us, spec.size_us, spec.offset_us, spec.size_us)
        return cls(spec.size_us, spec.slide_us, spec.offset_us, spec.pane_us)

    def last_start(self, ts: Int64s) -> Int64s:
        """Start of the latest window that begins at or before each instant. With gaps it may not contain it."""
        return self._floor(ts, self.slide_us)

    @property
    def has_gaps(self) -> bool:
        return self.slide_us > self.size_us

    def pane_number(self, ts: Int64s) -> Int64s:
        """Panes in order of time as consecutive numbers: what grouping by pane is fast with."""
        return (ts - self.offset_us if self.offset_us else ts) // self.pane_us

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers * self.pane_us + self.offset_us

    def next_start(self, us: int) -> int:
        """Start of the first window that begins after an instant."""
        return us - (us - self.offset_us) % self.slide_us + self.slide_us

    def in_gap(self, ts: Int64s) -> Bools:
        """Instants that no window contains (slide larger than size)."""
        return ts - self.last_start(ts) >= self.size_us

    def windows_of(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """Every (position, window start) such that the window contains ts[position]."""
        last, starts, positions = self.last_start(ts), [], []
        for back in range(-(-self.size_us // self.slide_us)):
            start = last - back * self.slide_us
            inside = np.flatnonzero(ts - start < self.size_us)
            positions.append(inside)
            starts.append(start[inside])
        return np.concatenate(positions), np.concatenate(starts)

    def _floor(self, ts: Int64s, width_us: int) -> Int64s:
        # Not by the remainder, because numpy divides by a constant three times faster than it takes remainders.
        return (ts - self.offset_us) // width_us * width_us + self.offset_us
