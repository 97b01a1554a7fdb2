"""Days of the calendar: built, moved by months, cut, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.casts import BLANK
from windowpane.sql.signatures.formats import formatted
from windowpane.sql.signatures.model import Signature, let, written_text
from windowpane.sql.signatures.parts import EPOCH, MICROS, USUAL, date_part, day, days_of, floored, instant, wrapped

_DATE = rf"\A{BLANK}([+-]?[0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T](?s:.*))?)?)?{BLANK}\z"
_NUMBER = f"CAST({{0}} - {EPOCH} AS BIGINT)"


def signatures() -> Iterator[Signature]:
    yield Signature("unix_date", ("DATE",), "INT", f"CAST({_NUMBER} AS INTEGER)")
    yield Signature("date_from_unix_date", ("INT",), "DATE", day("{0}"))
    for kind in ("INT", "BIGINT"):
        text = "make_timestamp(CAST({0} AS BIGINT) * 1000000)"
        yield Signature("timestamp_seconds", (kind,), "TIMESTAMP", text, fails=kind == "BIGINT")
    for name in ("unix_timestamp", "to_unix_timestamp"):
        yield Signature(name, ("TIMESTAMP",), "BIGINT", f"({MICROS} // 1000000)")
    length = _length(date_part("year", "DATE"), date_part("month", "DATE"))
    days = wrapped(f"{_NUMBER} - {date_part('day', 'DATE')} + {length}")
    yield Signature("last_day", ("DATE",), "DATE", let("days", days, day("days")))
    yield Signature("add_months", ("DATE", "INT"), "DATE", _months_later(), fails=True)
    made = days_of(*(f"CAST({{{at}}} AS BIGINT)" for at in range(3)))
    there = " AND ".join(f"{{{at}}} IS NOT NULL" for at in range(3))
    text = f"CASE WHEN {there} THEN {_checked(made)} END"
    yield Signature("make_date", ("INT", "INT", "INT"), "DATE", text, fails=True)
    for name, pattern in (("dayname", "EEE"), ("monthname", "MMM")):
        for kind in ("DATE", "TIMESTAMP"):
            shown = formatted(pattern, kind)
            if shown is not None:
                yield Signature(name, (kind,), "STRING", shown, zoned=kind == "TIMESTAMP")
    yield from _as_texts()
    yield from _of_texts()


def _checked(days: str) -> str:
    """A date of so many days since the epoch; fails beyond 32 bits."""
    return let("days", f"CAST({days} AS INTEGER)", day("days"))


def _length(year: str, month: str) -> str:
    leap = f"({year}) % 4 = 0 AND (({year}) % 100 <> 0 OR ({year}) % 400 = 0)"
    return f"CASE WHEN ({month}) IN (4, 6, 9, 11) THEN 30 WHEN ({month}) <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"


def _months_later() -> str:
    total = f"(CAST({date_part('year', 'DATE')} AS BIGINT) * 12 + {date_part('month', 'DATE')} - 1 + {{1}})"
    moved = days_of("y", "m", f"least({date_part('day', 'DATE')}, {_length('y', 'm')})")
    days = let("total", total, let("y", floored("total", 12), let("m", "((total % 12 + 12) % 12 + 1)", moved)))
    return f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {_checked(days)} END"


def _as_texts() -> Iterator[Signature]:
    """As ISO 8601 has them, a fraction of a second without the zeros at its end."""
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        shown = formatted("yyyy-MM-dd" if kind == "DATE" else "yyyy-MM-dd HH:mm:ss", kind)
        quick, fraction = "%Y-%m-%d", ""
        if kind != "DATE":
            micros = f"(({MICROS} % 1000000 + 1000000) % 1000000)"
            digits = f"rtrim(lpad(CAST({micros} AS VARCHAR), 6, '0'), '0')"
            quick, fraction = "%Y-%m-%d %H:%M:%S", f" || CASE WHEN {micros} = 0 THEN '' ELSE '.' || {digits} END"
        usual = f"WHEN {{0}} {USUAL.format('DATE' if kind == 'DATE' else 'TIMESTAMP')} THEN strftime({{0}}, '{quick}')"
        text = f"CASE {usual} WHEN {{0}} IS NOT NULL THEN {shown} END{fraction}"
        for word in ("cast", "try_cast"):
            yield Signature(f"{word} STRING", (kind,), "STRING", text, zoned=kind == "TIMESTAMP")


def _of_texts() -> Iterator[Signature]:
    later = [f"CAST(CASE WHEN {each} = '' THEN '1' ELSE {each} END AS BIGINT)" for each in ("parts.m", "parts.d")]
    days = let("y", "CAST(parts.y AS BIGINT)", days_of("y", *later))
    days = let("parts", f"regexp_extract({{0}}, {written_text(_DATE)}, ['y', 'm', 'd'])", days)
    text = f"CASE WHEN {{0}} IS NOT NULL THEN {_checked(days)} END"
    for name in ("cast DATE", "to_date"):
        yield Signature(name, ("STRING",), "DATE", text, fails=True)
    for name in ("try_cast DATE", "try_to_date"):
        yield Signature(name, ("STRING",), "DATE", f"TRY({text})", safe_args=True)
    micros = "spark_timestamp({0})"
    failing = f"CASE WHEN {micros} IS NULL THEN CAST('cast_error' AS BIGINT) ELSE {micros} END"
    text = f"CASE WHEN {{0}} IS NOT NULL THEN {let('us', failing, instant('us'))} END"
    for name in ("cast TIMESTAMP", "to_timestamp"):
        yield Signature(name, ("STRING",), "TIMESTAMP", text, fails=True, zoned=True, slow=True)
    for name in ("try_cast TIMESTAMP", "try_to_timestamp"):
        yield Signature(
            name, ("STRING",), "TIMESTAMP", let("us", micros, instant("us")), zoned=True, slow=True, safe_args=True
        )
    for name in ("to_date", "try_to_date"):
        yield Signature(name, ("DATE",), "DATE", "{0}")
    for name in ("to_timestamp", "try_to_timestamp"):
        yield Signature(name, ("TIMESTAMP",), "TIMESTAMP", "{0}")
