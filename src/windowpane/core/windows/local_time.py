"""The clocks of a time zone: what they show at an instant, and when they first show a time. Over whole columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np

from windowpane.core.windows.aligned import Int64s
from windowpane.core.windows.zone_rules import OffsetChanges
from windowpane.time import MIN_US


@dataclass(frozen=True)
class TimeZone:
    """A zone with its rules, so that a worker needs no database of time zones."""

    name: str
    rules: bytes = field(repr=False, compare=False)
    """A TZif file."""

    @property
    def digest(self) -> str:
        """Differs for other rules."""
        return blake2b(self.rules, digest_size=8).hexdigest()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class LocalClock:
    """Local times as microseconds since 1970-01-01 00:00 local time.

    Clocks that are put back show some times twice. For windows, which must follow each other, local time then stands
    still until clocks show new times: the day begins once, when clocks first show its date.
    """

    zone: TimeZone

    @cached_property
    def _changes(self) -> OffsetChanges:
        return OffsetChanges.read(self.zone.rules)

    @cached_property
    def _reached(self) -> Int64s:
        """For each change of the offset: the local time that clocks have come to by then, without reaching it."""
        begin, offset = self._changes.begin_us, self._changes.offset_us
        return np.concatenate([[MIN_US + 1], np.maximum.accumulate(begin[1:] + offset[:-1])])

    def local(self, ts: Int64s) -> Int64s:
        """The latest time that clocks have shown up to each instant."""
        at = np.searchsorted(self._changes.begin_us, ts, "right") - 1
        shown: Int64s = np.maximum(ts + self._changes.offset_us[at], self._reached[at] - 1)
        return shown

    def first_instant(self, local: Int64s) -> Int64s:
        """When clocks first show each time, or a later one where they skip it."""
        at = np.searchsorted(self._reached[1:], local, "right")
        instants: Int64s = np.maximum(self._changes.begin_us[at], local - self._changes.offset_us[at])
        return instants
