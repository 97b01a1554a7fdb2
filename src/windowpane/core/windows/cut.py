"""Windows of one version of a query: those that start on its side of the cut at which another version takes over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windowpane.core.windows.aligned import AlignedWindows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Cut:
    """The instants that a version has, by the starts of windows: from `from_us` on, and before `until_us`."""

    from_us: int | None = None
    until_us: int | None = None
    alone: bool = False
    """The version before has ended: rows that would be its are late."""

    def has(self, us: Int64s) -> Bools:
        after = us >= self.from_us if self.from_us is not None else np.ones(len(us), bool)
        return after & (us < self.until_us) if self.until_us is not None else after

    def too_late(self, us: Int64s) -> Bools:
        """Instants of a version that has ended."""
        return us < self.from_us if self.alone and self.from_us is not None else np.zeros(len(us), bool)


@dataclass(frozen=True)
class CutWindows:
    """The windows of a kind that start within a cut. Where they overlap, a row may be in windows of both versions."""

    whole: AlignedWindows
    cut: Cut
    has_gaps: bool = True

    @property
    def whole_panes(self) -> bool:
        return self.whole.whole_panes

    @property
    def key_step(self) -> int:
        return self.whole.key_step

    def pane_number(self, ts: Int64s) -> Int64s:
        return self.whole.pane_number(ts)

    def pane_start(self, numbers: Int64s) -> Int64s:
        return self.whole.pane_start(numbers)

    def pane_end(self, start_us: int) -> int:
        return self.whole.pane_end(start_us)

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        return self.whole.bounds(keys)

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        positions, keys = self.whole.open_for(ts)
        own = self.cut.has(self.bounds(keys)[0])
        return positions[own], keys[own]

    def keys_over(self, ts: Int64s) -> Int64s:
        keys = self.whole.keys_over(ts)
        return keys[self.cut.has(self.bounds(keys)[0])]

    def last_key(self, ts: Int64s) -> Int64s:
        last = self.whole.last_key(ts).copy()
        positions, keys = self.open_for(ts)
        order = np.lexsort((self.bounds(keys)[1], positions))
        last[positions[order]] = keys[order]
        return last

    def in_gap(self, ts: Int64s) -> Bools:
        placed = self.cut.too_late(ts)
        placed[self.open_for(ts)[0]] = True
        return ~placed

    def open_from(self, closed_us: int) -> int:
        first_us = self.whole.open_from(closed_us)
        if self.cut.until_us is not None and first_us >= self.cut.until_us:
            return _NEVER
        return first_us if self.cut.from_us is None else max(first_us, self.cut.from_us)
