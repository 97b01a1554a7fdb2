"""Windows over rows in released order (sliding, count, state), and no window at all, by brute force."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.oracle.rows import Emission, Row, by_group
from tests.oracle.spec import Counted, Query, Sliding, Stated


@dataclass
class SlidingWindows:
    """Every row (that WHEN holds for) triggers a window of its own over the rows released so far."""

    query: Query
    spec: Sliding
    rows: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)
    fired: dict[tuple[int, Any], int] = field(default_factory=dict)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            row.settle("aggregated")
            self.rows.append(row)
            if self.spec.when is None or self.spec.when.holds(row.values):
                self.pending.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        due = [row for row in self.pending if end or self.covered(row, after)]
        self.pending = [row for row in self.pending if row not in due]
        return [emission for row in due for emission in self.window(row)]

    def covered(self, trigger: Row, after: int | None) -> bool:
        if self.spec.lookahead_us is None:
            return True
        return after is not None and trigger.ts + self.spec.lookahead_us <= after

    def window(self, trigger: Row) -> list[Emission]:
        """One emission per group present; windows of one instant that results do not tell apart differ in epoch."""
        start, end = trigger.ts - self.spec.lookback_us, trigger.ts + (self.spec.lookahead_us or 0)
        partition = trigger.group(self.spec.partition_by)
        shown = trigger.ts, trigger.group(name for name in self.spec.partition_by if name in self.query.keys)
        epoch = self.fired[shown] = self.fired.get(shown, 0) + 1
        near = [row for row in self.rows if start <= row.ts <= end]
        inside = [row for row in near if row.group(self.spec.partition_by) == partition]
        if self.query.asks_for_rows:
            self.fired[shown] += len(inside) - 1
        groups = by_group(inside, self.query.keys)
        return [Emission(start, end, rows, epoch, trigger=trigger.ts) for rows in groups.values()]


@dataclass
class CountedWindows:
    """Window j of a partition has its rows [j*step, j*step+count), in released order."""

    query: Query
    spec: Counted
    rows: dict[Any, list[Row]] = field(default_factory=dict)
    emitted: set[tuple[Any, int]] = field(default_factory=set)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            partition = self.rows.setdefault(row.group(self.spec.partition_by), [])
            row.settle("aggregated" if len(partition) % self.spec.step < self.spec.count else "no_window")
            partition.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for partition, rows in self.rows.items():
            for first in range(0, len(rows), self.spec.step):
                inside = rows[first : first + self.spec.count]
                if (partition, first) not in self.emitted and (end or len(inside) == self.spec.count):
                    self.emitted.add((partition, first))
                    found += whole_window(inside, self.query)
        return found


def whole_window(rows: list[Row], query: Query) -> list[Emission]:
    """A window bounded by its rows, one emission per group in it."""
    groups = by_group(rows, query.keys)
    return [Emission(rows[0].ts, rows[-1].ts, members) for members in groups.values()]


@dataclass
class StatedWindows:
    """A window goes from a row that opens it to a later one that emits it, found by reading each partition again."""

    query: Query
    spec: Stated
    rows: dict[Any, list[Row]] = field(default_factory=dict)
    emitted: dict[Any, int] = field(default_factory=dict)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            partition = self.rows.setdefault(row.group(self.spec.partition_by), [])
            partition.append(row)
            complete, unfinished = self.read(partition)
            placed = any(row is member for window in [*complete, unfinished] for member in window)
            row.settle("aggregated" if placed else "no_window")

    def read(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        """The complete windows of a partition, and the rows of the one that is open."""
        return self.read_pairs(rows) if self.spec.emit is not None else self.read_single(rows)

    def read_pairs(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        assert self.spec.emit is not None
        complete: list[list[Row]] = []
        current: list[Row] = []
        for row in rows:
            if current and self.spec.emit.holds(row.values):
                complete.append([*current, row])
                current = []
            elif current or self.spec.open.holds(row.values):
                current.append(row)
        return complete, current

    def read_single(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        complete: list[list[Row]] = []
        current: list[Row] = []
        for row in rows:
            if self.spec.open.holds(row.values):
                complete += [current] if current else []
                current = [row]
            elif current:
                current.append(row)
        return complete, current

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for partition, rows in self.rows.items():
            complete, unfinished = self.read(rows)
            windows = [*complete, unfinished] if end and unfinished else complete
            for window in windows[self.emitted.get(partition, 0) :]:
                found += whole_window(window, self.query)
            self.emitted[partition] = len(windows)
        return found


@dataclass
class PlainRows:
    """No window: a released row is a result."""

    waiting: list[Row] = field(default_factory=list)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            row.settle("aggregated")
            self.waiting.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        done, self.waiting = self.waiting, []
        return [Emission(row.ts, row.ts, [row]) for row in done]
