"""Casts. The two engines read text and round numbers differently, so most need more than CAST."""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.sql.signatures.model import DUCKDB_TYPES, Signature, pairs
from windowpane.sql.types import FRACTIONAL, INTEGRAL, decimal_parts

BLANK = r"[\x00-\x20\x7f]*"
_TRIMMED = r"[\x00-\x20]*"
_WHOLE = rf"^{BLANK}([+-]?[0-9]+){BLANK}$"
_NUMBER = rf"^{_TRIMMED}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?{_TRIMMED}$"
_SPECIAL = {"nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf",
            "-infinity": "-inf"}  # fmt: skip


_BEYOND = {("DOUBLE", "BIGINT"): 2**63, ("FLOAT", "BIGINT"): 2**63}
"""What Spark takes for the largest integer, because the type of the source has none that is nearer."""


def _both(source: str, target: str, text: str, tried: str | None, *, fails: bool = True) -> Iterator[Signature]:
    """CAST and TRY_CAST."""
    yield Signature(f"cast {target}", (source,), target, text, fails=fails)
    yield Signature(f"try_cast {target}", (source,), target, tried or text, safe_args=tried is not None)


def signatures() -> Iterator[Signature]:
    for source, target in pairs(INTEGRAL):
        if source != target:
            kind, wider = DUCKDB_TYPES[target], INTEGRAL.index(source) < INTEGRAL.index(target)
            yield from _both(source, target, f"CAST({{0}} AS {kind})", f"TRY_CAST({{0}} AS {kind})", fails=not wider)
    for source in INTEGRAL:
        yield from _both(source, "DOUBLE", "CAST({0} AS DOUBLE)", None, fails=False)
        yield from _both(source, "STRING", "CAST({0} AS VARCHAR)", None, fails=False)
        yield from _both(source, "BOOLEAN", "({0} <> 0)", None, fails=False)
        yield from _both("BOOLEAN", source, f"CAST({{0}} AS {DUCKDB_TYPES[source]})", None, fails=False)
    for source in FRACTIONAL:
        for target in INTEGRAL:
            kind = DUCKDB_TYPES[target]
            last = _BEYOND.get((source, target))
            edge = f"CASE WHEN {{0}} = {last} THEN CAST({last - 1} AS {kind}) ELSE %s END" if last else "%s"
            tried = edge % f"TRY_CAST(trunc({{0}}) AS {kind})"
            yield from _both(source, target, edge % f"CAST(trunc({{0}}) AS {kind})", tried)
    yield from _both("FLOAT", "DOUBLE", "CAST({0} AS DOUBLE)", None, fails=False)
    yield from _both("BOOLEAN", "STRING", "CAST({0} AS VARCHAR)", None, fails=False)
    for target in INTEGRAL:
        digits, kind = f"regexp_extract({{0}}, '{_WHOLE}', 1)", DUCKDB_TYPES[target]
        tried = f"TRY_CAST(nullif({digits}, '') AS {kind})"
        yield from _both("STRING", target, f"CAST({digits} AS {kind})", tried)
    yield from _text_to_double()


def _text_to_double() -> Iterator[Signature]:
    special = " ".join(f"WHEN '{name}' THEN '{value}'" for name, value in _SPECIAL.items())
    text = f"CASE lower(trim({{0}}, chr(32))) {special} ELSE regexp_extract({{0}}, '{_NUMBER}', 1) END"
    yield from _both("STRING", "DOUBLE", f"CAST({text} AS DOUBLE)", f"TRY_CAST({text} AS DOUBLE)")


def of_decimals(name: str, args: tuple[str, ...]) -> Signature | None:
    """Casts between integers and decimals, and between decimals, where no digit is lost."""
    word, _, target = name.partition(" ")
    to = decimal_parts(target) if target.startswith("DECIMAL") else None
    source = decimal_parts(args[0]) if len(args) == 1 else None
    if word not in ("cast", "try_cast") or source is None:
        return None
    if target in INTEGRAL and args[0].startswith("DECIMAL") and source[1] == 0:
        kind = DUCKDB_TYPES[target]
        if word == "try_cast":
            return Signature(name, args, target, f"TRY_CAST({{0}} AS {kind})", safe_args=True)
        return Signature(name, args, target, f"CAST({{0}} AS {kind})", fails=True)
    if to is None:
        whole = target == "DOUBLE" and args[0].startswith("DECIMAL") and source[0] <= 15
        return Signature(name, args, "DOUBLE", "CAST({0} AS DOUBLE)") if whole else None
    if source[1] > to[1]:
        return None
    fails = source[0] - source[1] > to[0] - to[1]
    if word == "try_cast":
        return Signature(name, args, target, f"TRY_CAST({{0}} AS {target})", safe_args=True)
    return Signature(name, args, target, f"CAST({{0}} AS {target})", fails=fails)
