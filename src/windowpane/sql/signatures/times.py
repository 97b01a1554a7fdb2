"""Dates and instants. An instant is its time in UTC, so `zoned` functions are those of a session in UTC.

Spark knows every day of 32 bits and every microsecond of 64. DuckDB takes the last of each, and its negative, to be
infinite, and has no parts of them: those are written out here.
"""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import LITERAL, Signature, raising

_DATE_PARTS = {
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
_CLOCK_PARTS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_LAST_US, _LAST_DAY = 2**63 - 1, 2**31 - 1
_FIRST_YEAR_US = -9_223_371_158_400_000_000
"""When the first year begins that 64 bits have whole, -290307: what they have of the one before is some of December."""
_USUAL = "BETWEEN {0} '0001-01-01' AND {0} '9999-12-31'"
"""Years in which nothing overflows."""
_EPOCH = "DATE '1970-01-01'"


def _part(name: str, text: str, kind: str) -> str:
    last, first = (ends[name] for ends in _ENDS["DATE" if kind == "DATE" else "TIMESTAMP"])
    return f"CAST({_finite(text, last, first)} AS INTEGER)"


def _finite(text: str, last: int, first: int) -> str:
    """NULL is neither finite nor after the epoch."""
    infinite = f"WHEN {{0}} > {_EPOCH} THEN {last} WHEN {{0}} IS NOT NULL THEN {first}"
    return f"CASE WHEN isfinite({{0}}) THEN {text} {infinite} END"


_MICROS = _finite("epoch_us({0})", _LAST_US, -_LAST_US)


def _instant(micros: str) -> str:
    ends = f"WHEN {_LAST_US} THEN TIMESTAMP 'infinity' WHEN -{_LAST_US} THEN TIMESTAMP '-infinity'"
    return f"CASE {micros} {ends} ELSE make_timestamp({micros}) END"


def _wrapped(days: str) -> str:
    """As Java adds integers of 32 bits."""
    return f"((({days}) + {2**31}) & {2**32 - 1}) - {2**31}"


def _day(days: str) -> str:
    ends = f"WHEN {_LAST_DAY} THEN DATE 'infinity' WHEN -{_LAST_DAY} THEN DATE '-infinity'"
    return f"CASE {days} {ends} ELSE {_EPOCH} + CAST({days} AS INTEGER) END"


def _floored(micros: str, by: int) -> str:
    return f"({micros} // {by} - CASE WHEN {micros} % {by} < 0 THEN 1 ELSE 0 END)"


def signatures() -> Iterator[Signature]:
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        zoned = kind == "TIMESTAMP"
        parts = _DATE_PARTS if kind == "DATE" else _DATE_PARTS | {"weekofyear": "weekofyear({0})"}
        for name, text in parts.items():
            yield Signature(name, (kind,), "INT", _part(name, text, kind), zoned=zoned)
        if kind != "DATE":
            yield from _of_instants(kind, zoned=zoned)
    yield Signature("unix_micros", ("TIMESTAMP",), "BIGINT", _MICROS)
    yield Signature("unix_millis", ("TIMESTAMP",), "BIGINT", _floored(_MICROS, 1_000))
    yield Signature("unix_seconds", ("TIMESTAMP",), "BIGINT", _floored(_MICROS, 1_000_000))
    wide = "CAST({0} AS BIGINT)"
    yield Signature("timestamp_micros", ("INT",), "TIMESTAMP", f"make_timestamp({wide})")
    yield Signature("timestamp_micros", ("BIGINT",), "TIMESTAMP", _instant("{0}"))
    yield Signature("timestamp_millis", ("INT",), "TIMESTAMP", f"make_timestamp({wide} * 1000)")
    yield Signature("timestamp_millis", ("BIGINT",), "TIMESTAMP", "make_timestamp({0} * 1000)", fails=True)
    yield from _of_days()
    yield from _between_days_and_instants()


def _of_days() -> Iterator[Signature]:
    for name in ("datediff", "date_diff"):
        yield Signature(name, ("DATE", "DATE"), "INT", f"CAST({_wrapped('{0} - {1}')} AS INTEGER)")
    for name, sign in (("date_add", "+"), ("dateadd", "+"), ("date_sub", "-")):
        moved = _day(_wrapped(f"({{0}} - {_EPOCH}) {sign} {{1}}"))
        usual = f"CASE WHEN {{0}} {_USUAL.format('DATE')} THEN {{0}} {sign} {{1}} ELSE {moved} END"
        yield Signature(name, ("DATE", f"{LITERAL}INT"), "DATE", f"({usual})")
        yield Signature(name, ("DATE", "INT"), "DATE", f"({moved})")


def _between_days_and_instants() -> Iterator[Signature]:
    last, first = _LAST_US // 86_400_000_000, -_LAST_US // 86_400_000_000
    date = f"CASE WHEN isfinite({{0}}) THEN CAST({{0}} AS DATE) WHEN {{0}} > {_EPOCH} THEN {_EPOCH} + {last} "
    yield from _cast("TIMESTAMP", "DATE", f"{date} WHEN {{0}} IS NOT NULL THEN {_EPOCH} + ({first}) END", None)
    infinite = f"CASE WHEN NOT isfinite({{0}}) THEN {raising('TIMESTAMP', 'overflow')} ELSE"
    tried = "CASE WHEN isfinite({0}) THEN TRY_CAST({0} AS TIMESTAMP) END"
    yield from _cast("DATE", "TIMESTAMP", f"{infinite} CAST({{0}} AS TIMESTAMP) END", tried)


def _cast(source: str, target: str, text: str, tried: str | None) -> Iterator[Signature]:
    yield Signature(f"cast {target}", (source,), target, text, fails=tried is not None, zoned=True)
    yield Signature(f"try_cast {target}", (source,), target, tried or text, zoned=True, safe_args=tried is not None)


def _truncated(unit: str) -> str:
    """What begins before the first instant is an overflow."""
    unit_us = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000}.get(unit, 86_400_000_000)
    first_us = -(2**63 // unit_us) * unit_us  # the first whole day is a Monday
    if unit in ("MONTH", "QUARTER", "YEAR"):
        first_us = _FIRST_YEAR_US
    cut = f"CAST(date_trunc('{unit.lower()}', %s) AS TIMESTAMP)"
    infinite = f"WHEN {{1}} = TIMESTAMP 'infinity' THEN {cut % f'make_timestamp({_LAST_US - 1})'}"
    overflow = f"WHEN {{1}} < make_timestamp({first_us}) THEN {raising('TIMESTAMP', 'overflow')}"
    return f"CASE {overflow} {infinite} ELSE {cut % '{1}'} END"


def _of_instants(kind: str, *, zoned: bool) -> Iterator[Signature]:
    for name, (unit_us, count) in _CLOCK_PARTS.items():
        day_us = unit_us * count
        text = f"CAST((({_MICROS} % {day_us} + {day_us}) % {day_us}) // {unit_us} AS INTEGER)"
        yield Signature(name, (kind,), "INT", text, zoned=zoned)
    if zoned:
        for unit in UNITS:
            yield Signature("date_trunc", (f"'{unit}'", kind), kind, _truncated(unit), fails=True, zoned=True)
    for sign in ("+", "-"):
        moved = _instant(f"({_MICROS} {sign} epoch_us({{1}}))")
        usual = f"CASE WHEN {{0}} {_USUAL.format('TIMESTAMP')} THEN {{0}} {sign} {{1}} ELSE {moved} END"
        yield Signature(sign, (kind, "INTERVAL"), kind, f"({usual})", fails=True, zoned=zoned)
