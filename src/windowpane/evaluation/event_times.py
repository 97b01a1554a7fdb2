"""Where a row's event time is looked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EventTimeColumn:
    """A column that holds event times: microseconds per unit of an integer, None for a TIMESTAMP and for ISO 8601.

    `strict`: a row without a time is an error row; otherwise it has the time of its micro-batch.
    """

    column: str
    unit_us: int | None
    strict: bool
    type: str = ""
    """What the type of event time is called, for people."""
    code: int = 0
    """Which of `columns.TIME_SOURCES` a time from here counts as."""


@dataclass(frozen=True)
class EventTimes:
    """Columns in which a row's time is looked for, in this order.

    `told`: rows say where they have it from. `clock`: a row that has it nowhere has the time of its micro-batch.
    """

    columns: tuple[EventTimeColumn, ...]
    told: bool = False
    clock: bool = False
