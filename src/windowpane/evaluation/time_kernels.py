"""Text to instants as Spark's CAST reads it, in a session in UTC."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa

from windowpane.evaluation.text_kernels import Unproven, mapped

_TIMESTAMP = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_TIME_ALONE = re.compile(r"(T[0-9]{1,2}|[0-9]{1,2}:[0-9])")
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_BLANK = "".join(map(chr, (*range(33), 127)))
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


def timestamp(values: pa.Array) -> pa.Array:
    """Microseconds since the epoch; NULL where there is no instant."""
    return mapped(values, micros_of, pa.int64())


def micros_of(text: str) -> int | None:
    trimmed = text.strip(_BLANK)
    if _TIME_ALONE.match(trimmed):
        raise Unproven(f"a time without a date, `{trimmed}`")
    match = _TIMESTAMP.fullmatch(trimmed)
    if match is None:
        return None
    days = _days(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    offset = _offset_seconds(match["zone"].strip(_BLANK[:33])) if match["zone"] else 0
    if days is None or offset is None or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
    found = seconds * 1_000_000 + int((match["fraction"] or "")[:6].ljust(6, "0"))
    return found if -(2**63) <= found < 2**63 else None


def _days(year: int, month: int, day: int) -> int | None:
    """The calendar repeats itself after 400 years."""
    cycles, within = divmod(year, 400)
    try:
        return dt.date(within + 400, month, day).toordinal() - _EPOCH_DAY + (cycles - 1) * 146_097
    except ValueError:
        return None


def _offset_seconds(zone: str) -> int | None:
    """What is written after a time; a region's clock is not known here."""
    if zone in ("Z", "UTC", "GMT", "UT", "UCT", "Etc/UTC"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        if re.fullmatch(r"[A-Za-z+\-:0-9/_~]{2,}", zone):
            raise Unproven(f"the time zone `{zone}`")
        return None
    if len(match[2]) == 1 and match[3]:
        raise Unproven(f"the time zone `{zone}`")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    total = hours * 3_600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3_600:
        return None
    return -total if match[1] == "-" else total
