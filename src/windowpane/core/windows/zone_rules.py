"""The rules of a time zone as two columns: when its offset from UTC changes, and to what. Read from TZif (RFC 9636)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windowpane.time import MIN_US

Int64s = npt.NDArray[np.int64]

_HEADER = struct.Struct(">4sc15x6I")
_LAST_YEAR = 9999
_SECOND_US = 1_000_000
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_CLOCK = r"[+-]?\d+(?::\d+){0,2}"
_DATE = rf"M(\d+)\.(\d)\.(\d)(?:/({_CLOCK}))?"
_FOOTER = re.compile(rf"{_NAME}({_CLOCK})(?:{_NAME}({_CLOCK})?,{_DATE},{_DATE})?")


@dataclass(frozen=True)
class OffsetChanges:
    """`offset_us[i]` is added to UTC from `begin_us[i]` on. The first begins before all time."""

    begin_us: Int64s
    offset_us: Int64s

    @classmethod
    def read(cls, rules: bytes) -> OffsetChanges:
        """From the bytes of a TZif file. What its last rule says is written out to the year 9999."""
        begin, offset, footer = _table(rules)
        yearly_begin, yearly_offset = _by_last_rule(footer, int(begin[-1]) if len(begin) > 1 else None)
        return cls(
            np.concatenate([[MIN_US], begin[1:] * _SECOND_US, yearly_begin * _SECOND_US]),
            np.concatenate([offset, yearly_offset]) * _SECOND_US,
        )


def _table(rules: bytes) -> tuple[Int64s, Int64s, str]:
    """Seconds at which offsets begin, the offsets, and the rule for the time after. The first time is of no meaning."""
    _, _, *counts = _HEADER.unpack_from(rules)
    at = _HEADER.size + _size(counts, time_bytes=4)
    magic, _, *counts = _HEADER.unpack_from(rules, at)
    assert magic == b"TZif", "version 2 or later has a second table"
    _, _, _, times, types, _ = counts
    at += _HEADER.size
    begin = np.frombuffer(rules, ">i8", times, at).astype(np.int64)
    kinds = np.frombuffer(rules, np.uint8, times, at + 8 * times)
    records = np.frombuffer(rules, [("offset", ">i4"), ("dst", "u1"), ("name", "u1")], types, at + 9 * times)
    offsets = records["offset"].astype(np.int64)
    footer = rules[at + _size(counts, time_bytes=8) :].decode("ascii").strip("\n")
    return np.append([0], begin), np.append(offsets[:1], offsets[kinds]), footer


def _size(counts: list[int], *, time_bytes: int) -> int:
    """The bytes of a table with these numbers of records."""
    in_utc, in_standard, leaps, times, types, characters = counts
    return times * (time_bytes + 1) + types * 6 + characters + leaps * (time_bytes + 4) + in_standard + in_utc


def _by_last_rule(footer: str, after_s: int | None) -> tuple[Int64s, Int64s]:
    """The changes that the footer means, such as `CET-1CEST,M3.5.0,M10.5.0/3`, after the last one of the table."""
    found = _FOOTER.fullmatch(footer)
    assert found is not None, f"unknown rule {footer}"
    none = np.zeros(0, np.int64)
    if found[3] is None:
        return none, none
    # POSIX counts offsets to the west, and daylight time is an hour ahead unless the rule says otherwise.
    standard = -_seconds(found[1])
    daylight = -_seconds(found[2]) if found[2] else standard + 3600
    first = 1970 if after_s is None else int(np.datetime64(after_s, "s").astype("M8[Y]").astype(np.int64)) + 1970
    years = np.arange(first, _LAST_YEAR + 1)
    begins = _local_seconds(years, *found.group(3, 4, 5, 6)) - standard
    ends = _local_seconds(years, *found.group(7, 8, 9, 10)) - daylight
    times = np.concatenate([begins, ends])
    offsets = np.repeat([daylight, standard], len(years))
    order = np.argsort(times)
    order = order[times[order] > after_s] if after_s is not None else order
    return times[order], offsets[order]


def _local_seconds(years: Int64s, month: str, week: str, weekday: str, clock: str | None) -> Int64s:
    """The instant `Mmonth.week.weekday/clock` of each year, as seconds of local time. Week 5 is the last one."""
    months = (years - 1970) * 12 + int(month) - 1
    first, following = (each.astype("M8[M]").astype("M8[D]").astype(np.int64) for each in (months, months + 1))
    # Day 0, 1970-01-01, was a Thursday; weekday 0 is Sunday.
    days = first + (int(weekday) - first - 4) % 7 + 7 * (int(week) - 1)
    days = np.where(days >= following, days - 7, days)
    return np.asarray(days * 86_400 + (_seconds(clock) if clock else 7200))


def _seconds(clock: str) -> int:
    """`-3:30` as seconds."""
    sign = -1 if clock.startswith("-") else 1
    parts = [int(part) for part in clock.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
