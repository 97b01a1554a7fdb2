"""What the oracle knows of rows and of windows, whatever their kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.oracle.aggregates import comparable
from tests.oracle.spec import Values


@dataclass
class Row:
    """A row and what has become of it."""

    values: Values
    ts: Any
    """Microseconds; None only on error rows, which no window sees."""
    arrival: int
    fate: str = "buffered"
    reason: str = ""
    bounds: tuple[int, int] | None = None
    """The window that a late or evicted row missed."""

    def settle(self, fate: str, reason: str = "", bounds: tuple[int, int] | None = None) -> None:
        self.fate, self.reason, self.bounds = fate, reason, bounds

    def group(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(comparable(self.values[name]) for name in names)


@dataclass(frozen=True)
class Emission:
    """Rows of one window, or of one group in it, that come out together.

    Where rows are asked for, each has an epoch of its own, counting on from `epoch`.
    """

    start: int
    end: int
    rows: Sequence[Row]
    epoch: int = 1
    final: bool = True
    trigger: int | None = None


class Windows(Protocol):
    """What the oracle asks of a window: rows of one micro-batch first, then what comes out when it ends."""

    def take(self, rows: list[Row], before: int | None) -> None:
        """Settle the rows, judged against the watermark before their micro-batch."""

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        """What comes out once the watermark has moved to `after`; at a graceful end, everything."""


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.ts, row.arrival))


def by_group(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in in_order(rows):
        groups.setdefault(row.group(names), []).append(row)
    return groups
