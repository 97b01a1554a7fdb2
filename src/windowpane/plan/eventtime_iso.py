"""ISO 8601 text to microseconds, column by column: date alone or with time, fraction up to 9 digits, offset or UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.plan.eventtime_numbers import Bools, Int64s, ParsedTimes, parse_timestamps, parsed

ISO_8601 = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
"""The shape, written so that Java and RE2 read it alike, and without a backslash that SQL would need escaped."""

_PARTS = (
    r"^\s*(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?\s*$"
)
_MAX_OFFSET_MINUTES = 18 * 60
"""As java.time has it."""
_DAYS_BEFORE_MONTH = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
_DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_EPOCH_DAY = 719_162
"""Days from 0001-01-01 to 1970-01-01."""


def parse_iso8601(values: pa.Array) -> ParsedTimes:
    """`2025-01-31T23:59:59.123456789+01:00`, `2025-01-31 23:59Z`, `2025-01-31`. No offset means UTC."""
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return parse_timestamps(values)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return parsed(values, np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_))
    parts = pc.extract_regex(values.cast(pa.string()), pattern=_PARTS)
    day, day_exists = _days(*(_number(parts, name) for name in ("year", "month", "day")))
    time_us, time_exists = _time_us(parts)
    offset_minutes, offset_exists = _offset_minutes(parts)
    us = day * 86_400_000_000 + time_us - offset_minutes * 60_000_000
    return parsed(values, us, np.asarray(parts.is_valid()) & day_exists & time_exists & offset_exists)


def _number(parts: pa.StructArray, name: str) -> Int64s:
    """A part as a number; 0 where it is not written."""
    text = pc.fill_null(pc.struct_field(parts, name), "")
    written = pc.if_else(pc.equal(text, ""), "0", text)
    return np.asarray(written.cast(pa.int64()))


def _days(year: Int64s, month: Int64s, day: Int64s) -> tuple[Int64s, Bools]:
    """Days since the epoch in the proleptic Gregorian calendar, and which dates exist."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    index = np.clip(month, 1, 12) - 1
    longest = _DAYS_OF_MONTH[index] + (leap & (index == 1))
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= longest)
    before = year - 1
    whole_years = before * 365 + before // 4 - before // 100 + before // 400
    in_year = _DAYS_BEFORE_MONTH[index] + (leap & (index > 1)) + day - 1
    return whole_years + in_year - _EPOCH_DAY, exists


def _time_us(parts: pa.StructArray) -> tuple[Int64s, Bools]:
    hour, minute, second = (_number(parts, name) for name in ("hour", "minute", "second"))
    fraction = pc.fill_null(pc.struct_field(parts, "fraction"), "")
    micros = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, width=6, padding="0"), 0, 6)
    us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + np.asarray(micros.cast(pa.int64()))
    return us, (hour < 24) & (minute < 60) & (second < 60)


def _offset_minutes(parts: pa.StructArray) -> tuple[Int64s, Bools]:
    zone = pc.fill_null(pc.struct_field(parts, "zone"), "")
    digits = pc.replace_substring_regex(zone, pattern=r"[^0-9]", replacement="")
    padded = pc.utf8_rpad(digits, width=4, padding="0")
    hours = np.asarray(pc.utf8_slice_codeunits(padded, 0, 2).cast(pa.int64()))
    minutes = np.asarray(pc.utf8_slice_codeunits(padded, 2, 4).cast(pa.int64()))
    total = hours * 60 + minutes
    sign = np.where(np.asarray(pc.starts_with(zone, "-")), -1, 1)
    return total * sign, (minutes < 60) & (total <= _MAX_OFFSET_MINUTES)
