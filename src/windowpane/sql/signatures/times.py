"""Dates and instants. An instant is its time in UTC, so `zoned` functions are those of a session in UTC."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import LITERAL, Signature, pairs

_DATE_PARTS = {
    "year": "year({0})", "quarter": "quarter({0})", "month": "month({0})", "day": "day({0})",
    "dayofmonth": "day({0})", "dayofyear": "dayofyear({0})", "dayofweek": "dayofweek({0}) + 1",
    "weekday": "isodow({0}) - 1", "weekofyear": "weekofyear({0})",
}  # fmt: skip
_CLOCK_PARTS = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def _floored(micros: str, by: int) -> str:
    return f"(({micros} - ((({micros} % {by}) + {by}) % {by})) // {by})"


def signatures() -> Iterator[Signature]:
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        zoned = kind == "TIMESTAMP"
        for name, text in _DATE_PARTS.items():
            yield Signature(name, (kind,), "INT", f"CAST({text} AS INTEGER)", zoned=zoned)
        if kind != "DATE":
            yield from _of_instants(kind, zoned=zoned)
    micros = "epoch_us({0})"
    yield Signature("unix_micros", ("TIMESTAMP",), "BIGINT", micros)
    yield Signature("unix_millis", ("TIMESTAMP",), "BIGINT", _floored(micros, 1_000))
    yield Signature("unix_seconds", ("TIMESTAMP",), "BIGINT", _floored(micros, 1_000_000))
    wide = "CAST({0} AS BIGINT)"  # Spark's first and last instants are out of DuckDB's range
    yield Signature("timestamp_micros", ("INT",), "TIMESTAMP", f"make_timestamp({wide})")
    yield Signature("timestamp_millis", ("INT",), "TIMESTAMP", f"make_timestamp({wide} * 1000)")
    yield Signature("datediff", ("DATE", "DATE"), "INT", "CAST({0} - {1} AS INTEGER)", fails=True)
    yield Signature("date_add", ("DATE", f"{LITERAL}INT"), "DATE", "({0} + {1})")
    yield Signature("date_sub", ("DATE", f"{LITERAL}INT"), "DATE", "({0} - {1})")
    for left, right in pairs(("TIMESTAMP", "DATE")):
        if left != right:
            word = "DATE" if right == "DATE" else "TIMESTAMP"
            yield Signature(f"cast {right}", (left,), right, f"CAST({{0}} AS {word})", zoned=True)
            yield Signature(f"try_cast {right}", (left,), right, f"CAST({{0}} AS {word})", zoned=True)


def _of_instants(kind: str, *, zoned: bool) -> Iterator[Signature]:
    for name, (unit_us, count) in _CLOCK_PARTS.items():
        text = f"CAST((({_floored('epoch_us({0})', unit_us)} % {count}) + {count}) % {count} AS INTEGER)"
        yield Signature(name, (kind,), "INT", text, zoned=zoned)
    if zoned:
        for unit in UNITS:
            text = f"CAST(date_trunc('{unit.lower()}', {{1}}) AS TIMESTAMP)"
            yield Signature("date_trunc", (f"'{unit}'", kind), kind, text, zoned=True)
    for sign in ("+", "-"):
        yield Signature(sign, (kind, "INTERVAL"), kind, f"({{0}} {sign} {{1}})", fails=True, zoned=zoned)
