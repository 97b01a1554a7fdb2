"""Tumbling and hopping windows whose bounds are local midnights: days, weeks, months, quarters and years."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windowpane.core.windows.aligned import AlignedSpec, Bools, Int64s
from windowpane.core.windows.base import BadWindow, Part, PartValue
from windowpane.core.windows.local_time import LocalClock, TimeZone
from windowpane.core.windows.ranges import expand, union_of_ranges
from windowpane.core.windows.spans import LONGEST_DAYS, CalendarSpan, Periods
from windowpane.time import format_duration
from windowpane.time_zones import near_zones, zone_rules

_SIZE, _SLIDE = Part("SIZE", "size", "1 DAY"), Part("SLIDE", "slide", "1 DAY", label="slide")
_OFFSET = Part("OFFSET", "offset", "6 HOURS", label="offset", signed=True)
_ZONE = Part("TIME ZONE", "zone", "'Europe/Berlin'", takes="zone")
UNITS = "whole days, weeks, months, quarters or years"
MOST_BOUNDS = 4096
"""Up to so many bounds between the first and the last row of a batch, all of them are computed."""


def is_calendar(values: Mapping[str, PartValue]) -> bool:
    """Whether a window has a time zone, or a size in months, whose lengths differ."""
    spans = (values.get("SIZE"), values.get("SLIDE"))
    return "TIME ZONE" in values or any(isinstance(span, CalendarSpan) and span.in_months for span in spans)


@dataclass(frozen=True)
class CalendarTumbling(AlignedSpec):
    """From one local midnight to another. `offset` moves the bounds in local time."""

    size: CalendarSpan
    zone: TimeZone
    offset: int | CalendarSpan = 0

    kind = "tumbling"
    parts = (_SIZE, _ZONE, _OFFSET)

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> CalendarTumbling:
        size = _span(values, "SIZE")
        return cls(size, _zone(values), _offset(values, size))

    def windows(self) -> CalendarWindows:
        periods = Periods.of(self.size, self.size.length, self.offset)
        return CalendarWindows(self.zone, periods, slide=1, size=1, whole_panes=True)

    def longest_us(self) -> int:
        return self.size.longest_us

    def zone_rules(self) -> dict[str, str]:
        return {self.zone.name: self.zone.digest}

    def words(self) -> str:
        return f"tumbling, {self.size} each in {self.zone}{_shift(self.offset)}"


@dataclass(frozen=True)
class CalendarHopping(AlignedSpec):
    """From local midnights that are `slide` apart, each for `size` days or months."""

    size: CalendarSpan
    slide: CalendarSpan
    zone: TimeZone
    offset: int | CalendarSpan = 0

    kind = "hopping"
    parts = (_SIZE, _SLIDE, _ZONE, _OFFSET)

    @classmethod
    def build(cls, values: Mapping[str, PartValue]) -> CalendarHopping:
        size, slide = _span(values, "SIZE"), _span(values, "SLIDE")
        if size.in_months != slide.in_months:
            hint = "give both in days or weeks, or both in months, quarters or years"
            message = f"{size} is no number of steps of {slide}, because months differ in length"
            raise BadWindow("SLIDE", "CALENDAR_UNITS", message, hint)
        return cls(size, slide, _zone(values), _offset(values, slide))

    @property
    def _pane(self) -> int:
        return math.gcd(self.size.length, self.slide.length)

    def windows(self) -> CalendarWindows:
        panes = Periods.of(self.slide, self._pane, self.offset)
        slide, size = (span.length // self._pane for span in (self.slide, self.size))
        return CalendarWindows(self.zone, panes, slide=slide, size=size, whole_panes=False)

    def longest_us(self) -> int:
        return self.size.longest_us

    def zone_rules(self) -> dict[str, str]:
        return {self.zone.name: self.zone.digest}

    def overlapping(self) -> bool:
        return True

    def pane(self) -> str:
        return str(CalendarSpan(self._pane, "month" if self.size.in_months else "day"))

    def why_unshared(self) -> str | None:
        return "windows do not overlap" if self.slide.length >= self.size.length else None

    def words(self) -> str:
        return f"hopping, {self.size} long, a new one every {self.slide} in {self.zone}{_shift(self.offset)}"


def _span(values: Mapping[str, PartValue], name: str) -> CalendarSpan:
    value = values[name]
    if not isinstance(value, CalendarSpan):
        hint = "leave TIME ZONE out; OFFSET shifts windows of fixed length"
        message = f"{name} must be written in {UNITS} with TIME ZONE"
        if "TIME ZONE" not in values:
            hint, message = "write both in the same units", f"{name} must be written in {UNITS} like the other one"
        raise BadWindow(name, "CALENDAR_UNITS", message, hint)
    if value.length > LONGEST_DAYS // (31 if value.in_months else 1):
        raise BadWindow(name, "BAD_INTERVAL", f"{name} is longer than a thousand years", "write a smaller one")
    return value


def _zone(values: Mapping[str, PartValue]) -> TimeZone:
    name = str(values.get("TIME ZONE", "UTC"))
    try:
        return TimeZone(name, zone_rules(name))
    except KeyError:
        near = near_zones(name)
        hint = f"nearest: {', '.join(near)}" if near else "write a name of the IANA database, such as Europe/Berlin"
        raise BadWindow("TIME ZONE", "UNKNOWN_TIME_ZONE", f"unknown time zone `{name}`", hint) from None


def _offset(values: Mapping[str, PartValue], unit: CalendarSpan) -> int | CalendarSpan:
    offset = values.get("OFFSET", 0)
    assert isinstance(offset, int | CalendarSpan)
    if isinstance(offset, CalendarSpan) and offset.in_months and not unit.in_months:
        hint = "shift windows of days and weeks by days or less"
        raise BadWindow("OFFSET", "CALENDAR_UNITS", f"windows of days cannot be shifted by {offset}", hint)
    return offset


def _shift(offset: int | CalendarSpan) -> str:
    if not offset:
        return ""
    return f", shifted by {format_duration(offset) if isinstance(offset, int) else offset} of local time"


@dataclass(frozen=True)
class CalendarWindows:
    """Windows of `size` panes, one every `slide` panes. Panes are periods of local time, and differ in length.

    The key of a window is its number. Where each window is one pane, the key is its start.
    """

    zone: TimeZone
    panes: Periods
    slide: int
    size: int
    whole_panes: bool

    @cached_property
    def _clock(self) -> LocalClock:
        return LocalClock(self.zone)

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size

    @property
    def key_step(self) -> int:
        return 1

    def pane_number(self, ts: Int64s) -> Int64s:
        if not len(ts):
            return ts
        first, last = self._numbers(np.array([ts.min(), ts.max()])).tolist()
        if last - first > MOST_BOUNDS:
            return self._numbers(ts)
        numbers: Int64s = np.searchsorted(self.pane_start(np.arange(first + 1, last + 1)), ts, "right") + first
        return numbers

    def _numbers(self, ts: Int64s) -> Int64s:
        return self.panes.number(self._clock.local(ts))

    def pane_start(self, numbers: Int64s) -> Int64s:
        return self._clock.first_instant(self.panes.start(numbers))

    def pane_end(self, start_us: int) -> int:
        return int(self.pane_start(self.pane_number(np.array([start_us])) + 1)[0])

    def open_for(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        positions, numbers = expand(*self._windows_over(ts))
        return positions, self._keys(numbers)

    def keys_over(self, ts: Int64s) -> Int64s:
        return self._keys(union_of_ranges(*self._windows_over(ts)))

    def _windows_over(self, ts: Int64s) -> tuple[Int64s, Int64s]:
        """[low, high) of the numbers of the windows that contain each instant."""
        panes = self.pane_number(ts)
        return (panes - self.size) // self.slide + 1, panes // self.slide + 1

    def bounds(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        if self.whole_panes:
            return keys, self.pane_start(self.pane_number(keys) + 1)
        return self.pane_start(keys * self.slide), self.pane_start(keys * self.slide + self.size)

    def last_key(self, ts: Int64s) -> Int64s:
        return self._keys(self.pane_number(ts) // self.slide)

    def in_gap(self, ts: Int64s) -> Bools:
        return np.greater_equal(self.pane_number(ts) % self.slide, self.size)

    def open_from(self, closed_us: int) -> int:
        low, _ = self._windows_over(np.array([closed_us]))
        return int(self.pane_start(low * self.slide)[0])

    def _keys(self, numbers: Int64s) -> Int64s:
        return self.pane_start(numbers) if self.whole_panes else numbers
