"""Parts of dates and instants, and the two put together again, at the ends of the calendar too.

Spark knows every day of 32 bits and every microsecond of 64. DuckDB takes the last of each, and its negative, to be
infinite, and has no parts of them: those are written out here.
"""

from __future__ import annotations

DATE_PARTS = {
    "year": "year({0})", "quarter": "quarter({0})", "month": "month({0})", "day": "day({0})",
    "dayofmonth": "day({0})", "dayofyear": "dayofyear({0})", "dayofweek": "dayofweek({0}) + 1",
    "weekday": "isodow({0}) - 1",
    # The calendar repeats itself after 146,097 days. DuckDB has no weeks of the very first days.
    "weekofyear": "weekofyear(CASE WHEN {0} < DATE '1970-01-01' - 2000000000 THEN {0} + 146097 ELSE {0} END)",
}  # fmt: skip
_ENDS = {
    "DATE": ({"year": 5_881_580, "quarter": 3, "month": 7, "day": 11, "dayofmonth": 11, "dayofyear": 193,
              "dayofweek": 6, "weekday": 4, "weekofyear": 28},
             {"year": -5_877_641, "quarter": 2, "month": 6, "day": 24, "dayofmonth": 24, "dayofyear": 175,
              "dayofweek": 4, "weekday": 2, "weekofyear": 26}),
    "TIMESTAMP": ({"year": 294_247, "quarter": 1, "month": 1, "day": 10, "dayofmonth": 10, "dayofyear": 10,
                   "dayofweek": 1, "weekday": 6, "weekofyear": 1},
                  {"year": -290_308, "quarter": 4, "month": 12, "day": 21, "dayofmonth": 21, "dayofyear": 356,
                   "dayofweek": 1, "weekday": 6, "weekofyear": 51}),
}  # fmt: skip
"""The parts of the last day and instant, and of what DuckDB takes for minus infinity."""
CLOCK_PARTS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
LAST_US, LAST_DAY = 2**63 - 1, 2**31 - 1
FIRST_YEAR_US = -9_223_371_158_400_000_000
"""When the first year begins that 64 bits have whole, -290307: what they have of the one before is some of December."""
USUAL = "BETWEEN {0} '0001-01-01' AND {0} '9999-12-31'"
"""Years in which nothing overflows."""
EPOCH = "DATE '1970-01-01'"


def date_part(name: str, kind: str) -> str:
    """A part of the calendar of `{0}`, INTEGER."""
    text = "weekofyear({0})" if name == "weekofyear" and kind != "DATE" else DATE_PARTS[name]
    last, first = (ends[name] for ends in _ENDS["DATE" if kind == "DATE" else "TIMESTAMP"])
    return f"CAST({finite(text, last, first)} AS INTEGER)"


def clock_part(name: str) -> str:
    """Hour, minute or second of `{0}`, an instant."""
    unit_us, count = CLOCK_PARTS[name]
    day_us = unit_us * count
    return f"CAST((({MICROS} % {day_us} + {day_us}) % {day_us}) // {unit_us} AS INTEGER)"


def finite(text: str, last: int, first: int) -> str:
    """NULL is neither finite nor after the epoch."""
    infinite = f"WHEN {{0}} > {EPOCH} THEN {last} WHEN {{0}} IS NOT NULL THEN {first}"
    return f"CASE WHEN isfinite({{0}}) THEN {text} {infinite} END"


MICROS = finite("epoch_us({0})", LAST_US, -LAST_US)


def instant(micros: str) -> str:
    ends = f"WHEN {LAST_US} THEN TIMESTAMP 'infinity' WHEN -{LAST_US} THEN TIMESTAMP '-infinity'"
    return f"CASE {micros} {ends} ELSE make_timestamp({micros}) END"


def wrapped(days: str) -> str:
    """As Java adds integers of 32 bits."""
    return f"((({days}) + {2**31}) & {2**32 - 1}) - {2**31}"


def day(days: str) -> str:
    ends = f"WHEN {LAST_DAY} THEN DATE 'infinity' WHEN -{LAST_DAY} THEN DATE '-infinity'"
    return f"CASE {days} {ends} ELSE {EPOCH} + CAST({days} AS INTEGER) END"


def floored(micros: str, by: int) -> str:
    return f"({micros} // {by} - CASE WHEN {micros} % {by} < 0 THEN 1 ELSE 0 END)"


def days_of(year: str, month: str, day_of_month: str) -> str:
    """Days since the epoch; fails for a day that does not exist. The calendar repeats itself after 400 years."""
    shifted = f"(({year}) % 400 + 2400)"
    return (
        f"((make_date({shifted}, {month}, {day_of_month}) - {EPOCH})"
        f" + CAST(({year}) - {shifted} AS BIGINT) // 400 * 146097)"
    )
