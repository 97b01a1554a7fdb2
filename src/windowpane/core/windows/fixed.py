"""Tumbling and hopping windows: fixed lengths, aligned to the epoch.

All by floor division, so that times before 1970 are right: a row at -1 with size 10 is in [-10, 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windowpane.core.windows.aligned import AlignedSpec, Bools, Int64s
from windowpane.core.windows.base import Part, PartValue, WindowSpec
from windowpane.core.windows.calendar import CalendarHopping, CalendarTumbling, is_calendar
from windowpane.core.windows.ranges import union_of_ranges
from windowpane.time import format_duration

MAX_PANES_PER_SLIDE = 64
"""Beyond this, closing a window merges more panes than a row would have touched windows."""
_SIZE = Part("SIZE", "size_us", "10 SECONDS", takes="calendar")
OFFSET = Part(
    "OFFSET", "offset_us", "1 SECOND", label="offset", zero=True, signed=True, in_function=False, takes="calendar"
)  # fmt: skip
_ZONE = Part("TIME ZONE", "zone", "'Europe/Berlin'", takes="zone")


@dataclass(frozen=True)
class Tumbling(AlignedSpec):
    """[start, start+size), start a multiple of size shifted by offset."""

    size_us: int
    offset_us: int = 0

    kind = "tumbling"
    parts = (_SIZE, OFFSET, _ZONE)

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> WindowSpec:
        return CalendarTumbling.build(values) if is_calendar(values) else super().build(values)

    def windows(self) -> FixedWindows:
        return FixedWindows(size_us=self.size_us, slide_us=self.size_us, offset_us=self.offset_us, pane_us=self.size_us)

    def longest_us(self) -> int:
        return self.size_us

    def words(self) -> str:
        return f"tumbling, {format_duration(self.size_us)} each{shift_in_words(self.offset_us)}"


@dataclass(frozen=True)
class Hopping(AlignedSpec):
    """[start, start+size), start a multiple of slide shifted by offset. size need not be a multiple of slide."""

    size_us: int
    slide_us: int
    offset_us: int = 0

    kind = "hopping"
    parts = (
        Part("SIZE", "size_us", "1 MINUTE", takes="calendar"),
        Part("SLIDE", "slide_us", "10 SECONDS", label="slide", takes="calendar"),
        OFFSET,
        _ZONE,
    )

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> WindowSpec:
        return CalendarHopping.build(values) if is_calendar(values) else super().build(values)

    def windows(self) -> FixedWindows:
        return FixedWindows(
            size_us=self.size_us, slide_us=self.slide_us, offset_us=self.offset_us, pane_us=self._pane_us
        )

    def longest_us(self) -> int:
        return self.size_us

    def overlapping(self) -> bool:
        return True

    def pane(self) -> str:
        return format_duration(self._pane_us)

    @property
    def _pane_us(self) -> int:
        return math.gcd(self.size_us, self.slide_us)

    def why_unshared(self) -> str | None:
        if self.slide_us >= self.size_us:
            return "windows do not overlap"
        if self.slide_us // self._pane_us > MAX_PANES_PER_SLIDE:
            return f"panes of {self.pane()} would be too many"
        return None

    def words(self) -> str:
        size, slide = format_duration(self.size_us), format_duration(self.slide_us)
        return f"hopping, {size} long, a new one every {slide}{shift_in_words(self.offset_us)}"


def shift_in_words(offset_us: int) -> str:
    """What `words` says of an offset."""
    return f", shifted by {format_duration(offset_us)}" if offset_us else ""


@dataclass(frozen=True)
class FixedWindows:
    """Windows of one size. Tumbling windows are hopping windows whose slide is their size. The key is the start."""

    size_us: int
    slide_us: int
    offset_us: int
    pane_us: int

    @property
    def has_gaps(self) -> bool:
        return self.slide_us > self.size_us

    @property
    def whole_panes(self) -> bool:
        return self.pane_us == self.size_us

    @property
    def key_step(self) -> int:
        return self.slide_us

    def pane_number(self, ts: Int64s) -> Int64s:
        return (ts - self.offset_us if self.offset_us else ts) // self.pane_us

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers * self.pane_us + self.offset_us

    def pane_end(self, start_us: int) -> int:
        return start_us + self.pane_us

    def keys_over(self, ts: Int64s) -> Int64s:
        shifted = ts - self.offset_us
        numbers = union_of_ranges((shifted - self.size_us) // self.slide_us + 1, shifted // self.slide_us + 1)
        return numbers * self.slide_us + self.offset_us

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        last, starts, positions = self.last_key(ts), [], []
        for back in range(-(-self.size_us // self.slide_us)):
            start = last - back * self.slide_us
            inside = np.flatnonzero(ts - start < self.size_us)
            positions.append(inside)
            starts.append(start[inside])
        return np.concatenate(positions), np.concatenate(starts)

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return keys, keys + self.size_us

    def last_key(self, ts: Int64s) -> Int64s:
        # Not by the remainder, because numpy divides by a constant three times faster than it takes remainders.
        return (ts - self.offset_us) // self.slide_us * self.slide_us + self.offset_us

    def in_gap(self, ts: Int64s) -> Bools:
        return ts - self.last_key(ts) >= self.size_us

    def open_from(self, closed_us: int) -> int:
        last_closed = closed_us - self.size_us
        return last_closed - (last_closed - self.offset_us) % self.slide_us + self.slide_us
