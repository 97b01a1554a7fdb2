"""Kinds whose windows follow from time alone and are the same for all groups, and what operators ask of their windows.

Time is cut into panes that no window bound divides. A window is named by a key, an int64 that its kind chooses.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from windowpane.core.windows.base import WindowSpec

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class AlignedWindows(Protocol):
    """The windows of one spec, over columns. Stateless; every method is called with whole columns of a micro-batch."""

    @property
    def has_gaps(self) -> bool:
        """Whether some instants are in no window."""

    @property
    def whole_panes(self) -> bool:
        """Whether each window is exactly one pane, whose start is then its key."""

    @property
    def key_step(self) -> int:
        """The usual difference between the keys of neighbouring windows: reports are short where it holds."""

    def pane_number(self, ts: Int64s) -> Int64s:
        """The pane of each instant. Later panes have larger numbers; dense numbers make grouping fast."""

    def pane_start(self, numbers: Int64s) -> Int64s:
        """Where panes begin."""

    def pane_end(self, start_us: int) -> int:
        """Where the pane that begins at `start_us` ends."""

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """Every (position, window key) such that the window contains ts[position]."""

    def keys_over(self, ts: Int64s) -> Int64s:
        """The keys, sorted, of the windows that contain at least one of these instants, which are sorted."""

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """First instant of each window, and the first one after it."""

    def last_key(self, ts: Int64s) -> Int64s:
        """Of the windows that contain each instant, the one that ends last. In a gap: the last one before it."""

    def in_gap(self, ts: Int64s) -> Bools:
        """Instants that no window contains. Called only where `has_gaps`."""

    def open_from(self, closed_us: int) -> int:
        """The first instant that lies in a window which ends after `closed_us`."""


class AlignedSpec(WindowSpec):
    """Lateness is per window: a row is late when all its windows are closed."""

    ordered = False
    per_group = True
    shared_bounds = True
    ends_by_time = True
    partitioned = False
    folding = "accumulators"

    def windows(self) -> AlignedWindows:
        raise NotImplementedError

    def longest_us(self) -> int:
        """The length of the longest window."""
        raise NotImplementedError

    def emitted(self) -> str | None:
        return None

    def slack_us(self) -> int:
        return self.longest_us()
