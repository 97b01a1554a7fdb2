"""Local days and months by brute force: every instant of a day is asked what date clocks show."""

from __future__ import annotations

import datetime as dt
import io
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
QUARTER_HOUR = dt.timedelta(minutes=15)
"""All changes of the zones that are drawn are at such instants."""


@cache
def zone_of(name: str) -> ZoneInfo:
    """From the package, because the machine's rules may be others."""
    rules = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return ZoneInfo.from_file(io.BytesIO(rules), name)


@cache
def midnight_us(day: dt.date, zone: str) -> int:
    """The first instant at which clocks show this date, or a later one."""
    start = dt.datetime.combine(day, dt.time(), dt.UTC) - dt.timedelta(hours=27)
    instants = (start + number * QUARTER_HOUR for number in range(54 * 4))
    first = next(each for each in instants if each.astimezone(zone_of(zone)).date() >= day)
    return (first - EPOCH) // dt.timedelta(microseconds=1)


def local_date(ts_us: int, zone: str) -> dt.date:
    return (EPOCH + dt.timedelta(microseconds=ts_us)).astimezone(zone_of(zone)).date()


def period_start(number: int, unit: str) -> dt.date:
    """The date with which day, week or month `number` begins."""
    if unit == "month":
        return dt.date(1970 + number // 12, number % 12 + 1, 1)
    return (
        dt.date(1970, 1, 1) + dt.timedelta(days=number)
        if unit == "day"
        else dt.date(1969, 12, 29) + dt.timedelta(weeks=number)
    )


def period_number(date: dt.date, unit: str) -> int:
    """The day, week or month of a date."""
    if unit == "month":
        return (date.year - 1970) * 12 + date.month - 1
    return (date - dt.date(1970, 1, 1)).days if unit == "day" else (date - dt.date(1969, 12, 29)).days // 7
