"""Cumulate windows: windows with one start that grow by a step up to a size. They share panes as wide as the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windowpane.core.windows.aligned import AlignedSpec, Bools, Int64s
from windowpane.core.windows.base import BadWindow, Part, PartValue, WindowSpec
from windowpane.core.windows.fixed import OFFSET, shift_in_words
from windowpane.core.windows.ranges import expand, union_of_ranges
from windowpane.time import format_duration


@dataclass(frozen=True)
class Cumulate(AlignedSpec):
    """[start, start + n * step) for n = 1 up to size / step; start is a multiple of size shifted by offset."""

    step_us: int
    size_us: int
    offset_us: int = 0

    kind = "cumulate"
    parts = (
        Part("STEP", "step_us", "10 MINUTES", label="step"),
        Part("SIZE", "size_us", "1 HOUR", label="size"),
        OFFSET,
    )

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> WindowSpec:
        spec = super().build(values)
        assert isinstance(spec, Cumulate)
        if spec.size_us % spec.step_us:
            shown = f"{format_duration(spec.size_us)} is not a multiple of {format_duration(spec.step_us)}"
            hint = "each window is one step longer than the one before, so a whole number of steps must make the size"
            raise BadWindow("SIZE", "SIZE_NOT_A_MULTIPLE", f"size must be a multiple of step: {shown}", hint)
        return spec

    def windows(self) -> CumulateWindows:
        return CumulateWindows(self.step_us, self.size_us, self.offset_us)

    def longest_us(self) -> int:
        return self.size_us

    def overlapping(self) -> bool:
        return True

    def pane(self) -> str:
        return format_duration(self.step_us)

    def words(self) -> str:
        step, size = format_duration(self.step_us), format_duration(self.size_us)
        return f"cumulating, {step} longer each time up to {size}{shift_in_words(self.offset_us)}"


@dataclass(frozen=True)
class CumulateWindows:
    """A window's key is its end, because no two windows end at the same instant."""

    step_us: int
    size_us: int
    offset_us: int
    has_gaps = False
    whole_panes = False

    @property
    def key_step(self) -> int:
        return self.step_us

    def pane_number(self, ts: Int64s) -> Int64s:
        return (ts - self.offset_us if self.offset_us else ts) // self.step_us

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers * self.step_us + self.offset_us

    def pane_end(self, start_us: int) -> int:
        return start_us + self.step_us

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        positions, ends = expand(*self._ends(ts))
        return positions, self.pane_start(ends)

    def keys_over(self, ts: Int64s) -> Int64s:
        return self.pane_start(union_of_ranges(*self._ends(ts)))

    def _ends(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """[low, high) of the panes at whose starts the windows of each instant end."""
        panes, steps = self.pane_number(ts), self.size_us // self.step_us
        return panes + 1, (panes // steps + 1) * steps + 1

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return self._start(keys - 1), keys

    def last_key(self, ts: Int64s) -> Int64s:
        return self._start(ts) + self.size_us

    def in_gap(self, ts: Int64s) -> Bools:
        return np.zeros(len(ts), np.bool_)

    def open_from(self, closed_us: int) -> int:
        # Of the windows with one start, the longest closes last, and it contains all rows since the start.
        return closed_us - (closed_us - self.offset_us) % self.size_us

    def _start(self, ts: Int64s) -> Int64s:
        return (ts - self.offset_us) // self.size_us * self.size_us + self.offset_us
