"""Two versions of a query side by side in the harness: what a hand-over gives, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from windowpane.core.windows.cut import Cut
from windowpane.plan.cuts import cut_between_us
from windowpane.plan.hand_over import check_hand_over, cut_plan, ends_us
from windowpane.plan.shape import shape_of
from windowpane.testing.decode import RowsLike
from windowpane.testing.harness import Harness, Step


@dataclass(frozen=True)
class Versions:
    """What one micro-batch gave: by the version before the cut, while it runs, and by the one after it."""

    before: Step | None
    after: Step
    ending: Step | None = None
    """The end of the version before: windows by rows that the cut has left incomplete."""

    @property
    def rows(self) -> list[dict[str, object]]:
        return [row for step in (self.before, self.ending, self.after) if step for row in step.rows]


@dataclass
class HandOver:
    """Runs the version before the cut until its last window is closed, and the one after it from now on."""

    before: Harness | None
    after: Harness
    cut_us: int
    ends_us: int = field(init=False)

    def __post_init__(self) -> None:
        assert self.before is not None
        self.ends_us = ends_us(self.before.plan, self.cut_us)

    @classmethod
    def of(cls, before: Harness, after: Harness, read_us: int) -> HandOver | None:
        """From a query that has read rows up to `read_us`; None if both never begin a window at the same instant."""
        for each in (before, after):
            check_hand_over(each.plan)
        cut_us = cut_between_us(shape_of(before.plan), shape_of(after.plan), read_us)
        if cut_us is None:
            return None
        before.go_on(cut_plan(before.plan, Cut(until_us=cut_us)))
        after.go_on(cut_plan(after.plan, Cut(from_us=cut_us)))
        after.follow(before)
        return cls(before, after, cut_us)

    def push(
        self, rows: RowsLike, stream: str | None = None, shard: int | str = 0, *, at: int | None = None
    ) -> Versions:
        """As of `Harness`."""
        return self._both(lambda each: each.push(rows, stream, shard, at=at))

    def push_together(self, parts: Sequence[tuple[RowsLike, str | None, int | str]]) -> Versions:
        """As of `Harness`."""
        return self._both(lambda each: each.push_together(parts))

    def end(self) -> Versions:
        return self._both(lambda each: each.end())

    def _both(self, act: Callable[[Harness], Step]) -> Versions:
        found = Versions(act(self.before) if self.before else None, act(self.after))
        watermark_us = self.before.watermark_us if self.before else None
        if self.before is None or self.before.finished or watermark_us is None or watermark_us < self.ends_us:
            return found
        ending, self.before = self.before.end(), None
        self.after.go_on(cut_plan(self.after.plan, Cut(from_us=self.cut_us, alone=True)))
        return replace(found, ending=ending)
