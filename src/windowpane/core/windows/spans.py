"""Durations of the calendar: days, weeks, months, quarters and years, which may differ in length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windowpane.time import UNIT_US

Int64s = npt.NDArray[np.int64]

DAY_US = UNIT_US["dd"]
_UNITS = {"day": 1, "week": 7, "month": 1, "quarter": 3, "year": 12}
"""Days or months of each unit."""
_IN_MONTHS = ("month", "quarter", "year")
_FIRST_MONDAY = -3
"""1969-12-29, in days since the epoch: the Monday of the week in which the epoch lies."""
LONGEST_DAYS = 400_000
"""More than a thousand years."""


@dataclass(frozen=True)
class CalendarSpan:
    """Some days, weeks, months, quarters or years."""

    count: int
    unit: str

    @classmethod
    def read(cls, number: int, word: str) -> CalendarSpan | None:
        """From a number and a unit as it is written, such as `MONTHS`; None for any other unit."""
        unit = word.lower().removesuffix("s")
        return cls(number, unit) if unit in _UNITS else None

    @property
    def in_months(self) -> bool:
        return self.unit in _IN_MONTHS

    @property
    def length(self) -> int:
        """In days, or in months."""
        return self.count * _UNITS[self.unit]

    @property
    def fixed_us(self) -> int | None:
        """Its length where days have 24 hours; None for what has no fixed length even then."""
        return None if self.in_months else self.length * DAY_US

    @property
    def longest_us(self) -> int:
        """More than it ever lasts. Clocks were put back by a whole day where the date line moved."""
        return (self.length * (31 if self.in_months else 1) + 2) * DAY_US

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if abs(self.count) == 1 else 's'}"


@dataclass(frozen=True)
class Periods:
    """Local time cut into equal numbers of days or months.

    Days are counted from 1970-01-01, weeks from Monday 1969-12-29, months from January 1970; then comes the shift.
    """

    length: int
    in_months: bool
    first: int = 0
    """The day or month, counted from the epoch, with which period 0 begins."""
    shift_us: int = 0

    @classmethod
    def of(cls, unit: CalendarSpan, length: int, offset: int | CalendarSpan) -> Periods:
        """Periods of `length` days or months, aligned as windows that begin every `unit`."""
        first = _FIRST_MONDAY if unit.unit == "week" else 0
        if isinstance(offset, CalendarSpan) and offset.in_months:
            return cls(length, in_months=True, first=offset.length)
        shift_us = offset if isinstance(offset, int) else offset.length * DAY_US
        return cls(length, in_months=unit.in_months, first=first, shift_us=shift_us)

    def number(self, local: Int64s) -> Int64s:
        """The period of each local time."""
        local = local - self.shift_us
        units = local.view("M8[us]").astype("M8[M]").astype(np.int64) if self.in_months else local // DAY_US
        return (units - self.first) // self.length

    def start(self, numbers: Int64s) -> Int64s:
        """The local time with which each period begins."""
        units = numbers * self.length + self.first
        local = units.view("M8[M]").astype("M8[us]").view(np.int64) if self.in_months else units * DAY_US
        return local + self.shift_us
