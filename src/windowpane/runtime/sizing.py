"""Decides how large the micro-batches of a backlog may be, from how long they take. Knows neither Spark nor sources.

A size is a multiple of the usual limits. A change ends the query and begins it again, so there have to be few of them:
only by a factor of two or more, only on good evidence, and the more of it the more often the direction has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FLOOR = 1 / 64
"""Below this the fixed cost of a micro-batch is most of it on any machine."""
CEILING = 8.0
"""2 GiB of files, 8 M records. Folding is done in chunks whatever the size, but a shard of a window that keeps its rows
holds those of a batch in memory, and what a batch closes goes to the sinks at once."""
AIM = 0.75
"""What a change aims at, as a share of the target: below it, since batches vary."""
MOST = 2 * AIM
"""A batch that takes longer than this many targets is too large by a factor of two: worth a change."""
STEP = 4.0
"""The most that a limit changes at once."""
WORTHWHILE = 2.0
FAR_TOO_LONG = 4.0
"""So many targets, and the next batch need not confirm it."""
PATIENCE = 6
"""Each change of direction doubles the evidence that the next change needs, so many times at most."""
FIXED_SECONDS = 0.5
"""What a micro-batch costs that has no rows, about: what a larger one saves."""
WARM_UP_SECONDS = 5.0
"""The first batch of a query starts workers, loads state and runs code that is not compiled yet."""


class Ask(NamedTuple):
    """A batch that asks for another size, and what it was itself."""

    wanted: float
    size: float
    seconds: float


@dataclass
class BatchSizing:
    """One transform's. `target_s`: how long a micro-batch may take; `scale`: the size that its limits allow now."""

    target_s: float
    scale: float = 1.0
    restart_s: float = 1.0
    """What ending the query and beginning it again has cost the last time."""
    _fresh: bool = field(init=False, default=True)
    _asks: list[Ask] = field(init=False, default_factory=list)
    """Of the last batches, if all of them ask for a larger size, or all for a smaller one."""
    _earlier: tuple[float, float] | None = field(init=False, default=None)
    """Size and seconds before the last change."""
    _grew: bool | None = field(init=False, default=None)
    _turns: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.scale = min(max(self.scale, FLOOR), CEILING)

    def begun(self) -> None:
        """The query begins, or begins again: its first batch says little."""
        self._fresh = True
        self._asks.clear()

    def judge(self, size: float | None, seconds: float) -> bool:
        """A micro-batch is done. Whether `scale` has changed, so that the query is to begin again.

        `size`: how large it was, if its limit left something behind for the next; None if it took all there was.
        """
        fresh, self._fresh = self._fresh, False
        if size is None or size <= 0 or (fresh and seconds < FAR_TOO_LONG * self.target_s + WARM_UP_SECONDS):
            self._asks.clear()
            return False
        seconds = max(seconds, 1e-3)
        ask = Ask(self._wanted(size, seconds), size, seconds)
        if 1 / WORTHWHILE < ask.wanted / self.scale < WORTHWHILE:
            self._asks.clear()
            return False
        if self._asks and self._grows(ask) != self._grows(self._asks[-1]):
            self._asks.clear()
        self._asks.append(ask)
        return self._is_enough() and self._change()

    def _wanted(self, size: float, seconds: float) -> float:
        """The size that would take as long as aimed at, if time grows with size beyond a fixed part.

        Not one of which that part is more than half; and none that would take too long if there were no such part.
        """
        fixed = min(self._fixed(size, seconds), 0.95 * seconds)
        goal = max(AIM * self.target_s, 2 * fixed)
        factor = (goal - fixed) / (seconds - fixed)
        if factor > 1:
            factor = max(min(factor, MOST * self.target_s / seconds), 1)
        lowest, highest = max(self.scale / STEP, FLOOR), min(self.scale * STEP, CEILING)
        return min(max(size * factor, lowest), highest)

    def _fixed(self, size: float, seconds: float) -> float:
        """The part of a batch's time that does not go with its size, as two different sizes show it."""
        if self._earlier is None:
            return 0.0
        other, took = self._earlier
        if max(size, other) < WORTHWHILE * min(size, other):
            return 0.0
        slope = max((seconds - took) / (size - other), 0.0)
        return min(max(seconds - slope * size, 0.0), self.target_s)

    def _is_enough(self) -> bool:
        """To grow: it would have saved what a change costs. To shrink: a single batch may have been slow by itself."""
        patience = 1 << min(self._turns, PATIENCE)
        if self._grows(self._asks[-1]):
            saved = sum(FIXED_SECONDS * (1 - self.scale / ask.wanted) for ask in self._asks)
            return saved >= self.restart_s * patience
        return len(self._asks) >= 2 * patience or self._asks[-1].seconds >= FAR_TOO_LONG * self.target_s

    def _change(self) -> bool:
        """To the size, of those asked for, that is nearest to the present one."""
        ask = min(self._asks, key=lambda each: abs(each.wanted - self.scale))
        grows = self._grows(ask)
        self._turns += self._grew is not None and self._grew != grows
        self._earlier, self._grew, self.scale = (ask.size, ask.seconds), grows, ask.wanted
        self._asks.clear()
        return True

    def _grows(self, ask: Ask) -> bool:
        return ask.wanted > self.scale
