"""Dates and instants. An instant is its time in UTC, so `zoned` functions are those of a session in UTC."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import LITERAL, Signature, raising
from windowpane.sql.signatures.parts import (
    CLOCK_PARTS,
    DATE_PARTS,
    EPOCH,
    FIRST_YEAR_US,
    LAST_US,
    MICROS,
    USUAL,
    clock_part,
    date_part,
    day,
    floored,
    instant,
    wrapped,
)

UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def signatures() -> Iterator[Signature]:
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        zoned = kind == "TIMESTAMP"
        for name in DATE_PARTS:
            yield Signature(name, (kind,), "INT", date_part(name, kind), zoned=zoned)
        if kind != "DATE":
            yield from _of_instants(kind, zoned=zoned)
    yield Signature("unix_micros", ("TIMESTAMP",), "BIGINT", MICROS)
    yield Signature("unix_millis", ("TIMESTAMP",), "BIGINT", floored(MICROS, 1_000))
    yield Signature("unix_seconds", ("TIMESTAMP",), "BIGINT", floored(MICROS, 1_000_000))
    wide = "CAST({0} AS BIGINT)"
    yield Signature("timestamp_micros", ("INT",), "TIMESTAMP", f"make_timestamp({wide})")
    yield Signature("timestamp_micros", ("BIGINT",), "TIMESTAMP", instant("{0}"))
    yield Signature("timestamp_millis", ("INT",), "TIMESTAMP", f"make_timestamp({wide} * 1000)")
    yield Signature("timestamp_millis", ("BIGINT",), "TIMESTAMP", "make_timestamp({0} * 1000)", fails=True)
    yield from _of_days()
    yield from _between_days_and_instants()


def _of_days() -> Iterator[Signature]:
    for name in ("datediff", "date_diff"):
        yield Signature(name, ("DATE", "DATE"), "INT", f"CAST({wrapped('{0} - {1}')} AS INTEGER)")
    for name, sign in (("date_add", "+"), ("dateadd", "+"), ("date_sub", "-")):
        moved = day(wrapped(f"({{0}} - {EPOCH}) {sign} {{1}}"))
        usual = f"CASE WHEN {{0}} {USUAL.format('DATE')} THEN {{0}} {sign} {{1}} ELSE {moved} END"
        yield Signature(name, ("DATE", f"{LITERAL}INT"), "DATE", f"({usual})")
        yield Signature(name, ("DATE", "INT"), "DATE", f"({moved})")


def _between_days_and_instants() -> Iterator[Signature]:
    last, first = LAST_US // 86_400_000_000, -LAST_US // 86_400_000_000
    date = f"CASE WHEN isfinite({{0}}) THEN CAST({{0}} AS DATE) WHEN {{0}} > {EPOCH} THEN {EPOCH} + {last} "
    date = f"{date} WHEN {{0}} IS NOT NULL THEN {EPOCH} + ({first}) END"
    yield from _cast("TIMESTAMP", "DATE", date, None)
    yield Signature("to_date", ("TIMESTAMP",), "DATE", date, zoned=True)
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
        first_us = FIRST_YEAR_US
    cut = f"CAST(date_trunc('{unit.lower()}', %s) AS TIMESTAMP)"
    infinite = f"WHEN {{1}} = TIMESTAMP 'infinity' THEN {cut % f'make_timestamp({LAST_US - 1})'}"
    overflow = f"WHEN {{1}} < make_timestamp({first_us}) THEN {raising('TIMESTAMP', 'overflow')}"
    return f"CASE {overflow} {infinite} ELSE {cut % '{1}'} END"


def _of_instants(kind: str, *, zoned: bool) -> Iterator[Signature]:
    for name in CLOCK_PARTS:
        yield Signature(name, (kind,), "INT", clock_part(name), zoned=zoned)
    if zoned:
        for unit in UNITS:
            yield Signature("date_trunc", (f"'{unit}'", kind), kind, _truncated(unit), fails=True, zoned=True)
    for sign in ("+", "-"):
        moved = instant(f"({MICROS} {sign} epoch_us({{1}}))")
        usual = f"CASE WHEN {{0}} {USUAL.format('TIMESTAMP')} THEN {{0}} {sign} {{1}} ELSE {moved} END"
        yield Signature(sign, (kind, "INTERVAL"), kind, f"({usual})", fails=True, zoned=zoned)
