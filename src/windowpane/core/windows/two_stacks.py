"""Windows over panes without merging every pane every time: two stacks, amortised three merges per window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import pyarrow as pa

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
Pane = Callable[[int], pa.RecordBatch]


class TwoStacks:
    """Aggregates of pane ranges [low, high) that move forward.

    The front stack has suffix aggregates of the older panes, the back has one running aggregate of the newer ones. It
    is only a cache: what it holds can always be had again from the panes, and is dropped when one of them changes.
    """

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self.reset()

    def reset(self) -> None:
        self._front: list[tuple[int, pa.RecordBatch]] = []
        self._back: list[int] = []
        self._back_sum: pa.RecordBatch | None = None
        self._low: int | None = None
        self._high: int | None = None

    def touch(self, pane: int) -> None:
        """A pane has changed: forget what was built on it."""
        if self._high is not None and pane < self._high:
            self.reset()

    def query(self, low: int, high: int, pane: Pane, starts: Sequence[int]) -> list[pa.RecordBatch]:
        """Two states at most, which together are that of the panes in [low, high). `starts` are all panes, sorted.

        They are left to the caller to merge, who may do so for many windows at once.
        """
        if self._low is not None and self._high is not None and (low < self._low or high < self._high):
            self.reset()
        self._extend(low, high, pane, starts)
        while self._front and self._front[-1][0] < low:
            self._front.pop()
        if not self._front:
            self._flip(low, pane)
        self._low = low
        parts = [self._front[-1][1]] if self._front else []
        return parts if self._back_sum is None else [*parts, self._back_sum]

    def _extend(self, low: int, high: int, pane: Pane, starts: Sequence[int]) -> None:
        begin = low if self._high is None else max(low, self._high)
        for start in starts[bisect_left(starts, begin) : bisect_left(starts, high)]:
            self._back.append(start)
            parts = [pane(start)] if self._back_sum is None else [self._back_sum, pane(start)]
            self._back_sum = self._merge(parts)
        self._high = high

    def _flip(self, low: int, pane: Pane) -> None:
        suffix: pa.RecordBatch | None = None
        for start in reversed([start for start in self._back if start >= low]):
            suffix = self._merge([pane(start)] if suffix is None else [pane(start), suffix])
            self._front.append((start, suffix))
        self._back, self._back_sum = [], None
