"""Instants and durations as int64 microseconds, and their spellings at the rim (config, CLI, rendering)."""

from __future__ import annotations

import datetime as dt
import re

from windowpane.errors import ConfigError

UNIT_US = {"ms": 1_000, "ss": 1_000_000, "mi": 60_000_000, "hh": 3_600_000_000, "dd": 86_400_000_000}
"""The units of window functions in SQL, in microseconds."""

MAX_US = 2**63 - 1
MIN_US = -(2**63)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_SHORT = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000,
}  # fmt: skip
_LONG = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
_DURATION = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
DURATION_EXAMPLES = '"500ms", "5s", "2m", "1h", "1d", "10 seconds"'


def unit_to_us(word: str) -> int | None:
    """Microseconds of a duration's unit (`s`, `seconds`, `MINUTE`), or None when there is no such unit."""
    if word in _SHORT:
        return _SHORT[word]
    folded = word.lower()
    return _LONG.get(folded) or _LONG.get(folded.removesuffix("s")) or _SHORT.get(folded)


def parse_duration(text: str) -> int:
    """Microseconds of `5s`, `2m`, `1h 30m`, `10 seconds`; ConfigError BAD_DURATION otherwise.

    >>> parse_duration("1m 30s")
    90000000
    """
    total, position = 0.0, 0
    exact = 0
    for match in _DURATION.finditer(text):
        unit = unit_to_us(match[2])
        if match.start() != position or unit is None:
            break
        if "." in match[1]:
            total += float(match[1]) * unit
        else:
            exact += int(match[1]) * unit
        position = match.end()
    if position != len(text) or not text.strip():
        raise ConfigError("BAD_DURATION", f"`{text}` is not a duration", f"write it like {DURATION_EXAMPLES}")
    whole = exact + round(total)
    if not MIN_US <= whole <= MAX_US:
        hint = f"write it like {DURATION_EXAMPLES}"
        raise ConfigError("BAD_DURATION", f"`{text}` is longer than 292,000 years", hint)
    return whole


def format_duration(us: int) -> str:
    """The shortest exact spelling that `parse_duration` reads back.

    >>> format_duration(90_000_000), format_duration(0), format_duration(-8 * 3_600_000_000)
    ('1m 30s', '0s', '-8h')
    """
    if us == 0:
        return "0s"
    sign, rest, parts = ("-" if us < 0 else ""), abs(us), []
    for name, unit in sorted(_SHORT.items(), key=lambda item: -item[1]):
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{sign}{count}{name}")
    return " ".join(parts)


INSTANT_EXAMPLES = '"2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00", "now", "-1d", "-90m"'


def parse_instant(text: str, now_us: int) -> int:
    """An instant in ISO 8601, a date, or a duration before or after now; UTC where no offset is given.

    ConfigError BAD_INSTANT otherwise.

    >>> parse_instant("1970-01-01T01:00:00+01:00", 0), parse_instant("1970-01-02", 0), parse_instant("-1m 30s", 0)
    (0, 86400000000, -90000000)
    """
    given = text.strip()
    if given == "now":
        return now_us
    try:
        if given.startswith(("-", "+")):
            distance = parse_duration(given[1:])
            return now_us - distance if given.startswith("-") else now_us + distance
        return from_datetime(dt.datetime.fromisoformat(given))
    except (ConfigError, ValueError, OverflowError):
        hint = f"write it like {INSTANT_EXAMPLES}"
        raise ConfigError("BAD_INSTANT", f"`{text}` is not an instant", hint) from None


def to_datetime(us: int) -> dt.datetime:
    """An aware datetime in UTC. Instants outside datetime's years raise OverflowError."""
    return EPOCH + dt.timedelta(microseconds=us)


def from_datetime(when: dt.datetime) -> int:
    """Microseconds since the epoch; a naive datetime is taken as UTC."""
    aware = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    return (aware - EPOCH) // dt.timedelta(microseconds=1)


def format_instant(us: int) -> str:
    """RFC 3339 with microseconds; a plain count where the year does not fit a datetime.

    >>> format_instant(-1)
    '1969-12-31T23:59:59.999999Z'
    """
    try:
        return to_datetime(us).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    except OverflowError:
        return f"{us}us"
