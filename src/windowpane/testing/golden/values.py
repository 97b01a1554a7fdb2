"""Values as golden files write them: read, compared with what a query gave, and written back."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from windowpane.errors import ConfigError
from windowpane.time import format_duration, from_datetime, parse_duration, to_datetime

_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)")
_DURATION = re.compile(r"([+-]?\d+(\.\d+)?(us|ms|s|m|h|d) ?)+")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WORDS: dict[str, object] = {
    "NULL": None, "true": True, "false": False, "NaN": math.nan, "inf": math.inf, "-inf": -math.inf,
}  # fmt: skip
_NEAR_EPOCH_US = 86_400_000_000
_RELATIVE = 1e-12
"""How far floats may be apart: what is left to the order of additions is far smaller."""


class Anything:
    """`*`: any value but NULL."""


@dataclass(frozen=True)
class Instant:
    us: int


@dataclass(frozen=True)
class Literal:
    """A value as written. `text` is its own spelling without quotes."""

    text: str
    value: object
    quoted: bool = False


def from_json(value: object) -> Literal:
    """A value of a JSON line: its strings may be instants."""
    if isinstance(value, str):
        instant = parse_instant(value)
        return Literal(value, value if instant is None else instant)
    if isinstance(value, list):
        return Literal(str(value), [from_json(item) for item in value])
    if isinstance(value, dict):
        return Literal(str(value), {name: from_json(item) for name, item in value.items()})
    return Literal(str(value), Decimal(repr(value)) if isinstance(value, float) and math.isfinite(value) else value)


def parse_instant(text: str) -> Instant | None:
    """`10s` after the epoch, `-1ms`, or ISO 8601; None for anything else."""
    if _DURATION.fullmatch(text):
        try:
            return Instant(parse_duration(text))
        except ConfigError:
            return None
    if _ISO.fullmatch(text):
        try:
            return Instant(from_datetime(dt.datetime.fromisoformat(text)))
        except ValueError:
            return None
    return None


def bare_value(text: str) -> object:
    """What a word without quotes stands for: itself, when nothing else."""
    if text in _WORDS:
        return _WORDS[text]
    if text == "*":
        return Anything()
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    if _DATE.fullmatch(text):
        try:
            return dt.date.fromisoformat(text)
        except ValueError:
            return text
    instant = parse_instant(text)
    return text if instant is None else instant


def matches(literal: Literal, got: object) -> bool:
    """Whether a query's value is the one that was written. Types count: `2` is no `2.0`."""
    wanted = literal.value
    match wanted:
        case Anything():
            return got is not None
        case None | bool():
            return got is wanted
        case Decimal() | float():
            return _same_number(wanted, got)
        case int():
            return got == wanted and (type(got) is int or _is_whole(got))
        case Instant():
            return _instant_of(got) == wanted or got == literal.text
        case dt.date():
            return (got == wanted and not isinstance(got, dt.datetime)) or got == literal.text
        case list():
            return isinstance(got, list) and len(got) == len(wanted) and all(map(matches, wanted, got))
        case dict():
            return (
                isinstance(got, dict)
                and got.keys() == wanted.keys()
                and all(matches(wanted[n], got[n]) for n in wanted)
            )
        case _:
            return got == wanted or (isinstance(got, bytes) and literal.text == f"0x{got.hex()}")


def _is_whole(got: object) -> bool:
    return isinstance(got, Decimal) and got.as_tuple().exponent == 0


def _same_number(wanted: Decimal | float, got: object) -> bool:
    if isinstance(got, Decimal):
        return isinstance(wanted, Decimal) and wanted.as_tuple() == got.as_tuple()
    if not isinstance(got, float):
        return False
    number = float(wanted)
    return number == got or (math.isnan(number) and math.isnan(got)) or math.isclose(number, got, rel_tol=_RELATIVE)


def _instant_of(got: object) -> Instant | None:
    if isinstance(got, dt.datetime):
        return Instant(from_datetime(got))
    return parse_instant(got) if isinstance(got, str) else None


def render(got: object) -> str:
    """A query's value as a golden file writes it: `matches(parse_literal(render(x)), x)` holds."""
    match got:
        case None:
            return "NULL"
        case bool():
            return str(got).lower()
        case float():
            return {"nan": "NaN", "inf": "inf", "-inf": "-inf"}.get(repr(got), repr(got))
        case dt.datetime():
            return render_instant(from_datetime(got))
        case bytes():
            return f"0x{got.hex()}"
        case list():
            return f"[{', '.join(map(_render_inside, got))}]"
        case dict():
            return f"{{{', '.join(f'{name}: {_render_inside(value)}' for name, value in got.items())}}}"
        case str():
            return _render_string(got, "|")
        case _:
            return str(got)


def _render_inside(got: object) -> str:
    return _render_string(got, "|,]}") if isinstance(got, str) else render(got)


def render_instant(us: int) -> str:
    """Near the epoch as a duration from it, else ISO 8601."""
    if abs(us) < _NEAR_EPOCH_US:
        return format_duration(us)
    text = to_datetime(us).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{text}Z"


def _render_string(text: str, stops: str) -> str:
    instant = parse_instant(text)
    if instant is not None and text.endswith("Z") and "." in text:
        return render_instant(instant.us)
    plain = text == text.strip() and bool(text) and text[0] not in "'[{#" and not any(stop in text for stop in stops)
    if plain and isinstance(bare_value(text), str):
        return text
    return "'" + text.replace("'", "''") + "'"


def plain_values(items: Sequence[Literal]) -> list[object]:
    """The Python values of literals inside lists and structs."""
    return [plain_value(item) for item in items]


def plain_value(literal: Literal) -> object:
    match literal.value:
        case Instant(us):
            return to_datetime(us)
        case list() as items:
            return plain_values(items)
        case dict() as fields:
            return {name: plain_value(value) for name, value in fields.items()}
        case Anything():
            return "*"
        case value:
            return value
