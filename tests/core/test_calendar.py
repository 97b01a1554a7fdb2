"""Windows of local days and months, against the standard library: what clocks show, and when a date begins."""

from __future__ import annotations

import datetime as dt
import io
import random
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from windowpane.core.windows import AlignedSpec, Hopping, PartValue, Tumbling
from windowpane.core.windows.calendar import CalendarWindows
from windowpane.core.windows.local_time import LocalClock, TimeZone
from windowpane.core.windows.spans import DAY_US, CalendarSpan
from windowpane.time import from_datetime
from windowpane.time_zones import zone_names, zone_rules

AWKWARD = {
    "Europe/Berlin": "an hour at night",
    "America/Sao_Paulo": "days that begin at 01:00",
    "Asia/Beirut": "days that begin at 01:00, and others at midnight after 23:00 came twice",
    "America/Havana": "midnight twice",
    "America/St_Johns": "clocks put back from 00:01 to 23:01 of the day before",
    "Pacific/Apia": "a day that there was not",
    "America/Juneau": "a day that there was twice",
    "Africa/Casablanca": "an hour less in Ramadan",
    "Australia/Lord_Howe": "half an hour",
    "Europe/Dublin": "winter time is the exception",
    "Asia/Kathmandu": "an offset with minutes",
    "UTC": "no change at all",
}
START_US, END_US = (from_datetime(dt.datetime(year, 1, 1, tzinfo=dt.UTC)) for year in (1860, 2200))


def clock_of(name: str) -> LocalClock:
    return LocalClock(TimeZone(name, zone_rules(name)))


def zone_of(name: str) -> ZoneInfo:
    """With the same rules, whatever the machine has."""
    return ZoneInfo.from_file(io.BytesIO(zone_rules(name)), name)


def shown(ts_us: int, zone: ZoneInfo) -> dt.datetime:
    """What clocks show."""
    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ts_us)).astimezone(zone)


def offset_us(ts_us: int, zone: ZoneInfo) -> int:
    offset = shown(ts_us, zone).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(microseconds=1)


def instants_near_changes(name: str, draw: random.Random) -> list[int]:
    changes = clock_of(name)._changes.begin_us
    changes = changes[(changes > START_US) & (changes < END_US)].tolist()
    chosen = draw.sample(changes, min(len(changes), 4))
    return [each + shift for each in chosen for shift in (-DAY_US, -1, 0, 1, 7200 * 10**6)]


@pytest.mark.parametrize("name", sorted({*AWKWARD, *random.Random(7).sample(sorted(zone_names()), 10)}))
def test_rules_are_those_of_the_standard_library(name: str) -> None:
    draw, zone, clock = random.Random(name), zone_of(name), clock_of(name)
    ts = [draw.randrange(START_US, END_US) for _ in range(20)] + instants_near_changes(name, draw)
    changes = clock._changes
    at = np.searchsorted(changes.begin_us, np.array(ts), "right") - 1
    assert changes.offset_us[at].tolist() == [offset_us(each, zone) for each in ts]


def first_instant(local: dt.datetime, zone: ZoneInfo) -> int:
    """By search: nothing before shows this time or a later one."""
    wanted = from_datetime(local)
    reached = [
        us for us in range(wanted - 26 * 3600 * 10**6, wanted + 26 * 3600 * 10**6, 900 * 10**6)
        if us + offset_us(us, zone) >= wanted
    ]  # fmt: skip
    low, high = reached[0] - 900 * 10**6, reached[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle + offset_us(middle, zone) >= wanted else (middle, high)
    return high


DATES = [
    ("Europe/Berlin", "2024-03-31", "2024-03-30T23:00"),
    ("Europe/Berlin", "2024-04-01", "2024-03-31T22:00"),
    ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00"),
    ("America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00"),
    ("Asia/Beirut", "2024-03-31", "2024-03-30T22:00"),
    ("Asia/Beirut", "2024-10-27", "2024-10-26T22:00"),
    ("America/Havana", "2023-11-05", "2023-11-05T04:00"),
    ("America/St_Johns", "2006-10-29", "2006-10-29T02:30"),
    ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00"),
    ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00"),
    ("Europe/Paris", "1900-01-01", "1899-12-31T23:50:39"),
]


@pytest.mark.parametrize(("name", "date", "begins"), DATES)
def test_a_day_begins_when_clocks_first_show_its_date(name: str, date: str, begins: str) -> None:
    midnight = dt.datetime.fromisoformat(date)
    wanted = from_datetime(dt.datetime.fromisoformat(begins))
    assert clock_of(name).first_instant(np.array([from_datetime(midnight)])).tolist() == [wanted]
    assert first_instant(midnight, zone_of(name)) == wanted


@pytest.mark.parametrize("name", AWKWARD)
def test_every_instant_is_between_the_bounds_of_its_day(name: str) -> None:
    """The day of an instant is the last that has begun, also where bounds are not computed one by one."""
    draw, clock = random.Random(name), clock_of(name)
    windows = windows_of(Tumbling.build({"SIZE": CalendarSpan(1, "day"), "TIME ZONE": name}))
    near, far = instants_near_changes(name, draw), [draw.randrange(START_US, END_US) for _ in range(50)]
    for ts in (np.array([*near, *far]), *(np.array([each, each + 5 * DAY_US]) for each in near)):
        starts, ends = windows.bounds(windows.last_key(ts))
        assert ((starts <= ts) & (ts < ends)).all()
        days = np.array([from_datetime(dt.datetime.combine(shown(us, zone_of(name)), dt.time())) for us in ts.tolist()])
        assert (clock.first_instant(days) <= starts).all()


def windows_of(spec: object) -> CalendarWindows:
    assert isinstance(spec, AlignedSpec)
    windows = spec.windows()
    assert isinstance(windows, CalendarWindows)
    return windows


SPANS = [CalendarSpan(count, unit) for unit, count in (("day", 1), ("day", 3), ("week", 2), ("month", 1), ("month", 5))]


ALIKE = [(size, slide) for size in SPANS for slide in SPANS if size.in_months == slide.in_months]


@pytest.mark.parametrize(("size", "slide"), ALIKE, ids=str)
@pytest.mark.parametrize("name", ["Pacific/Apia", "America/St_Johns"])
def test_windows_are_those_that_contain_an_instant(name: str, size: CalendarSpan, slide: CalendarSpan) -> None:
    """Keys, bounds, gaps and what is still open agree with each other, around changes of the offset."""
    windows = windows_of(Hopping.build({"SIZE": size, "SLIDE": slide, "TIME ZONE": name}))
    ts = np.sort(np.array(instants_near_changes(name, random.Random(f"{name}{size}{slide}"))))
    positions, keys = windows.open_for(ts)
    start, end = windows.bounds(keys)
    assert ((start <= ts[positions]) & (ts[positions] < end)).all()
    numbers = windows.last_key(ts)
    candidates = np.unique(np.concatenate([numbers + step for step in range(-35, 3)]))
    start, end = windows.bounds(candidates)
    for position, us in enumerate(ts.tolist()):
        inside = candidates[(start <= us) & (us < end)].tolist()
        assert sorted(keys[positions == position].tolist()) == inside
        assert bool(windows.in_gap(ts[position : position + 1])[0]) is not bool(inside)
        later = start[end > us].min()
        assert windows.open_from(us) == later
    assert windows.keys_over(ts).tolist() == np.unique(keys).tolist()


def test_weeks_begin_on_monday_and_months_in_january_1970() -> None:
    def first(size: CalendarSpan, **parts: PartValue) -> str:
        windows = windows_of(Tumbling.build({**parts, "SIZE": size, "TIME ZONE": "Asia/Tokyo"}))
        start_us = int(windows.last_key(np.array([0]))[0])
        return shown(start_us, zone_of("Asia/Tokyo")).strftime("%a %Y-%m-%d %H:%M")

    assert first(CalendarSpan(2, "week")) == "Mon 1969-12-29 00:00"
    assert first(CalendarSpan(3, "day")) == "Thu 1970-01-01 00:00"
    assert first(CalendarSpan(5, "month")) == "Thu 1970-01-01 00:00"
    assert first(CalendarSpan(1, "week"), OFFSET=CalendarSpan(-1, "day")) == "Sun 1969-12-28 00:00"
    assert first(CalendarSpan(1, "day"), OFFSET=6 * 3600 * 10**6) == "Thu 1970-01-01 06:00"
    assert first(CalendarSpan(1, "year"), OFFSET=CalendarSpan(3, "month")) == "Tue 1969-04-01 00:00"


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Europe/London"])
def test_days_and_months_begin_where_duckdb_says(name: str) -> None:
    """ICU's rules are DuckDB's own; they agree where midnight is shown once."""
    draw = random.Random(name)
    ts = np.array([draw.randrange(0, 1_900_000_000) * 10**6 for _ in range(300)])
    units = ("day", "week", "month", "quarter", "year")
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{name}'")
        connection.register("input", pa.table({"us": ts}))
        columns = ", ".join(f"epoch_us(date_trunc('{unit}', make_timestamptz(us))) AS {unit}" for unit in units)
        truncated = connection.sql(f"SELECT {columns} FROM input").to_arrow_table()
    for unit in units:
        windows = windows_of(Tumbling.build({"SIZE": CalendarSpan(1, unit), "TIME ZONE": name}))
        assert truncated.column(unit).to_pylist() == windows.last_key(ts).tolist()


def test_no_rows_and_rows_far_apart() -> None:
    windows = windows_of(Tumbling.build({"SIZE": CalendarSpan(1, "day"), "TIME ZONE": "Europe/Berlin"}))
    assert windows.pane_number(np.zeros(0, np.int64)).tolist() == []
    far = np.array([-(10**17), 0, 10**17])
    starts, ends = windows.bounds(windows.last_key(far))
    assert ((starts <= far) & (far < ends) & (ends - starts == DAY_US)).all()
