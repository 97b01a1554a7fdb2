"""`alternatingwindow('ss', work, pause)`: windows that follow each other without gaps, of two lengths in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windowpane.core.windows import AlignedSpec, Part
from windowpane.core.windows.aligned import Bools, Int64s
from windowpane.time import format_duration


@dataclass(frozen=True)
class Alternating(AlignedSpec):
    """[start, start + work) and [start + work, start + work + pause); start is a multiple of both together."""

    work_us: int
    pause_us: int

    kind = "alternating"
    parts = (Part("WORK", "work_us", "8 HOURS"), Part("PAUSE", "pause_us", "16 HOURS", label="pause"))

    def windows(self) -> AlternatingWindows:
        return AlternatingWindows(self.work_us, self.pause_us)

    def longest_us(self) -> int:
        return max(self.work_us, self.pause_us)

    def words(self) -> str:
        return f"alternating, {format_duration(self.work_us)} and {format_duration(self.pause_us)}"


@dataclass(frozen=True)
class AlternatingWindows:
    """A window's key is its start. Windows of work have even numbers."""

    work_us: int
    pause_us: int
    has_gaps = False
    whole_panes = True

    @property
    def key_step(self) -> int:
        return self.work_us

    def pane_number(self, ts: Int64s) -> Int64s:
        rounds, within = np.divmod(ts, self.work_us + self.pause_us)
        return 2 * rounds + (within >= self.work_us)

    def pane_start(self, numbers: Int64s) -> Int64s:
        return numbers // 2 * (self.work_us + self.pause_us) + numbers % 2 * self.work_us

    def pane_end(self, start_us: int) -> int:
        return int(self.bounds(np.array([start_us]))[1][0])

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        return np.arange(len(ts)), self.last_key(ts)

    def keys_over(self, ts: Int64s) -> Int64s:
        return np.unique(self.last_key(ts))

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return keys, self.pane_start(self.pane_number(keys) + 1)

    def last_key(self, ts: Int64s) -> Int64s:
        return self.pane_start(self.pane_number(ts))

    def in_gap(self, ts: Int64s) -> Bools:
        return np.zeros(len(ts), np.bool_)

    def open_from(self, closed_us: int) -> int:
        return int(self.last_key(np.array([closed_us]))[0])
