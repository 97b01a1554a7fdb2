"""`run --profile`: where the time of the micro-batches went, as a table."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from rich.table import Table

from windowpane.checkpoint.ledger import Entry

WARM_UP = 2
"""Micro-batches at the start that are left out: workers start, and the JVM compiles."""
WORKERS = {
    "source": "reading: files, or rows on their way from the JVM",
    "fold": "rows to partial accumulators",
    "pack": "by shard, for the shuffle",
    "state": "state read and written",
    "merge": "partials into state, windows closed",
}
DRIVER = {
    "between": "between batches: Spark's logs and plan, and waiting for input",
    "job": "the batch's job, as the driver sees it",
    "sink": "results and side rows to their sinks",
}


@dataclass
class Profile:
    """Hears of every micro-batch of one transform."""

    batches: int = 0
    rows: int = 0
    spent: Counter[str] = field(default_factory=Counter)
    shuffled: list[list[int]] = field(default_factory=list)
    """For each shuffle, how many rows or partial results each shard has received."""
    _heard: int = 0
    _last: float | None = None

    def hear(self, entry: Entry) -> None:
        now, self._heard = time.monotonic(), self._heard + 1
        if self._heard > WARM_UP and self._last is not None:
            self.batches += 1
            self.rows += entry.accounting["in_"]
            between = max(0.0, now - self._last - entry.seconds)
            self.spent.update({"between": between, **entry.spent})
            if entry.shuffled:
                before = self.shuffled or [[0] * len(shards) for shards in entry.shuffled]
                self.shuffled = [
                    [total + more for total, more in zip(*both, strict=True)]
                    for both in zip(before, entry.shuffled, strict=True)
                ]
        self._last = now

    def document(self) -> dict[str, object]:
        """For scripts: seconds by name, over all counted batches."""
        seconds = {name: round(spent, 3) for name, spent in self.spent.items()}
        return {"batches": self.batches, "rows": self.rows, "seconds": seconds, "shuffled": self.shuffled}

    def table(self, name: str) -> Table:
        """For people: a line per part, on the driver's clock and in the workers."""
        title = f"{name}: where the time of {self.batches:,} micro-batches went ({self.rows:,} rows)"
        table = Table(title=title, title_justify="left")
        for heading in ("", "a batch", "share", ""):
            table.add_column(heading, justify="right" if heading in ("a batch", "share") else "left")
        wall = sum(self.spent[part] for part in DRIVER)
        for part, meaning in DRIVER.items():
            table.add_row(part, self._each(part), f"{self.spent[part] / wall:.0%}" if wall else "", meaning)
        table.add_section()
        for part, meaning in WORKERS.items():
            table.add_row(part, self._each(part), "", f"{meaning} (all tasks, part of the job)")
        table.add_section()
        for number, shards in enumerate(self.shuffled, start=1):
            share = f"{max(shards) / max(1, sum(shards)):.0%}"
            meaning = f"rows or partial results that cross shuffle {number}, and the share of the busiest shard"
            table.add_row("shuffle", f"{sum(shards) / max(1, self.batches):,.0f}", share, meaning)
        return table

    def _each(self, part: str) -> str:
        return f"{self.spent[part] / max(1, self.batches) * 1000:,.1f} ms"
