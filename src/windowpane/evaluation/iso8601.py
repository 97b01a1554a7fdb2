"""ISO 8601 text to microseconds, column by column: date alone or with time, fraction up to 9 digits, offset or UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.evaluation.unix_times import Bools, Int64s, ParsedTimes, parse_timestamps, parsed

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
_UTC = ("Z", "+00:00", "")
_BLOCK = 65_536
"""Values that are read one part after the other when one of them is written differently."""
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
    texts = values.cast(pa.string())
    blocks = [_block(texts.slice(low, _BLOCK)) for low in range(0, max(len(texts), 1), _BLOCK)]
    return pa.concat_arrays([times for times, _ in blocks]), pa.concat_arrays([failed for _, failed in blocks])


def _block(values: pa.Array) -> ParsedTimes:
    alike = _in_utc(values)
    if alike is not None:
        return alike, pa.array(np.zeros(len(values), np.bool_))
    parts = pc.extract_regex(values, pattern=_PARTS)
    day, day_exists = _days(*(_number(parts, name) for name in ("year", "month", "day")))
    time_us, time_exists = _time_us(parts)
    offset_minutes, offset_exists = _offset_minutes(parts)
    us = day * 86_400_000_000 + time_us - offset_minutes * 60_000_000
    return parsed(values, us, np.asarray(parts.is_valid()) & day_exists & time_exists & offset_exists)


def _in_utc(values: pa.Array) -> pa.Array | None:
    """Times that all say in the same way that they are in UTC, read by Arrow, in a tenth of the time; None otherwise.

    Arrow reads an hour without minutes too, which is no time here.
    """
    first = pc.first(values).as_py() or ""
    zone = next(zone for zone in _UTC if first.endswith(zone))
    if zone and not pc.all(pc.ends_with(values, zone)).as_py():
        return None
    if pc.any(pc.equal(pc.binary_length(values), len("2025-01-31T23") + len(zone))).as_py():
        return None
    try:
        return values.cast(pa.timestamp("us", "UTC" if zone else None)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None


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
