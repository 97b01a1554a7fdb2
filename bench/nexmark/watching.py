"""Micro-batches as they end: how many rows each took, and when."""

from __future__ import annotations

import time

from windowpane.checkpoint.ledger import Entry
from windowpane.runtime.running import RunningPipeline

Ticks = list[tuple[float, int]]
"""When each micro-batch ended, and the rows it took."""
PATIENCE_S = 600.0


class Watch:
    """Hears of every micro-batch."""

    def __init__(self) -> None:
        self.ticks: Ticks = []
        self.open_windows: list[int] = []

    def hear(self, _transform: str, entry: Entry) -> None:
        self.ticks.append((time.monotonic(), entry.accounting["in_"]))
        self.open_windows.append(entry.open_windows)

    @property
    def rows(self) -> int:
        return sum(rows for _end, rows in self.ticks)

    def until(self, rows: int, running: RunningPipeline, *, and_batches: int = 0) -> float:
        """The moment at which so many rows have been taken, `and_batches` without rows after them.

        A batch is heard of before Spark commits it. Stopped right then, it would come again at the next start.
        """
        patience = time.monotonic() + PATIENCE_S
        while self.rows < rows or any(taken for _end, taken in self.ticks[len(self.ticks) - and_batches :]):
            if not running.transforms[0].query.isActive:
                running.wait()
            if time.monotonic() > patience:
                raise SystemExit(f"{self.rows:,} of {rows:,} rows within {PATIENCE_S:.0f} s")
            time.sleep(0.002)
        return self.ticks[-1][0]


def steady(ticks: Ticks) -> dict[str, float]:
    """Of a run with one micro-batch there is no steady part: the whole of it is worth nothing as a figure."""
    if len(ticks) < 2:
        return {"rows": 0, "seconds": 0.0, "batches": len(ticks)}
    return {
        "rows": sum(rows for _end, rows in ticks[1:]),
        "seconds": ticks[-1][0] - ticks[0][0],
        "batches": len(ticks),
    }
