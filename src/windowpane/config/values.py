"""The kinds of values that keys take: durations, triggers, names, lists of names, free maps of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, SerializationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from windowpane.config.secrets import Secret, quoted
from windowpane.config.settings import refusal
from windowpane.errors import ConfigError, nearest
from windowpane.time import DURATION_EXAMPLES, format_duration, parse_duration

_UNITS = "us|ms|s|m|h|d|(?:microsecond|millisecond|second|minute|hour|day|week)s?"
_FROM_ENVIRONMENT = r"\$\{"
DURATION_PATTERN = rf"^(?:\s*\+?\d+(?:\.\d+)?\s*(?:{_UNITS}))+\s*$|{_FROM_ENVIRONMENT}"
OFF = "off"


def _duration(value: object, *, least_us: int = 0, off: bool = False) -> int | None:
    also = f', or "{OFF}"' if off else ""
    if off and value == OFF:
        return None
    if not isinstance(value, str):
        raise refusal("BAD_DURATION", f"{quoted(value)} is not a duration", f"write it like {DURATION_EXAMPLES}{also}")
    try:
        us = parse_duration(value)
    except ConfigError as error:
        hint = f"{error.hint}{also}"
        raise refusal(error.code, error.message.replace(f"`{value}`", quoted(value)), hint) from None
    if us < least_us:
        wanted = "not be negative" if least_us == 0 else "be longer than zero"
        raise refusal("BAD_DURATION", f"{quoted(value)} must {wanted}", f"write it like {DURATION_EXAMPLES}{also}")
    return us


def _parser(**limits: Any) -> Callable[[object], int | None]:
    return lambda value: _duration(value, **limits)


def _write_duration(us: int | None, info: SerializationInfo) -> int | str | None:
    return us if us is None or not info.by_alias else format_duration(us)


def _write_duration_or_off(us: int | None, info: SerializationInfo) -> int | str | None:
    return OFF if us is None and info.by_alias else _write_duration(us, info)


_DURATION_SCHEMA = {"type": "string", "pattern": DURATION_PATTERN, "examples": ["500ms", "5s", "2m"]}
_DURATION_OR_OFF_SCHEMA = {"anyOf": [{"const": OFF}, {"type": "string", "pattern": DURATION_PATTERN}]}

Duration: TypeAlias = Annotated[
    int, PlainValidator(_parser()), PlainSerializer(_write_duration), WithJsonSchema(_DURATION_SCHEMA)
]
"""Microseconds, zero or more."""

OptionalDuration: TypeAlias = Annotated[
    int | None, PlainValidator(_parser()), PlainSerializer(_write_duration), WithJsonSchema(_DURATION_SCHEMA)
]
"""Microseconds, zero or more; None when the key is not given."""

PositiveDuration: TypeAlias = Annotated[
    int, PlainValidator(_parser(least_us=1)), PlainSerializer(_write_duration), WithJsonSchema(_DURATION_SCHEMA)
]

DurationOrOff: TypeAlias = Annotated[
    int | None,
    PlainValidator(_parser(off=True)),
    PlainSerializer(_write_duration_or_off),
    WithJsonSchema(_DURATION_OR_OFF_SCHEMA),
]
"""Microseconds, zero or more; None is `off`."""

PositiveDurationOrOff: TypeAlias = Annotated[
    int | None,
    PlainValidator(_parser(least_us=1, off=True)),
    PlainSerializer(_write_duration_or_off),
    WithJsonSchema(_DURATION_OR_OFF_SCHEMA),
]


def _rate(value: object) -> int | None:
    if value == OFF:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        hint = f'write a number of rows per second, or "{OFF}"'
        raise refusal("BAD_TYPE", f"the rate limit {quoted(value)} is not a whole number", hint)
    if value < 1:
        hint = f'write "{OFF}" for no limit; a sink `metrics_only` forwards nothing'
        raise refusal("BAD_VALUE", f"the rate limit {quoted(value)} must be at least 1", hint)
    return value


RateLimit: TypeAlias = Annotated[
    int | None,
    PlainValidator(_rate),
    PlainSerializer(lambda rate, info: OFF if rate is None and info.by_alias else rate),
    WithJsonSchema({"anyOf": [{"const": OFF}, {"type": "integer", "minimum": 1}]}),
]
"""Rows per second; None is `off`."""


@dataclass(frozen=True)
class Trigger:
    """When micro-batches start. `every_us` is set for the kind `interval` alone."""

    kind: Literal["as_fast_as_possible", "available_now", "interval"] = "as_fast_as_possible"
    every_us: int | None = None

    def __str__(self) -> str:
        return self.kind if self.every_us is None else format_duration(self.every_us)


TRIGGERS = ("as_fast_as_possible", "available_now")


def _trigger(value: object) -> Trigger:
    if isinstance(value, Trigger):
        return value
    if value == "available_now":
        return Trigger("available_now")
    if value == "as_fast_as_possible":
        return Trigger()
    try:
        return Trigger("interval", _duration(value, least_us=1))
    except PydanticCustomError as error:
        choices = nearest("" if isinstance(value, Secret) else str(value), TRIGGERS)
        hint = f'valid: {choices}, or an interval like "10s"'
        raise refusal("BAD_CHOICE", f"{quoted(value)} is not a trigger", hint) from error


TriggerSetting: TypeAlias = Annotated[
    Trigger,
    PlainValidator(_trigger),
    PlainSerializer(str),
    WithJsonSchema({"anyOf": [{"enum": list(TRIGGERS)}, {"type": "string", "pattern": DURATION_PATTERN}]}),
]

OptionValue: TypeAlias = str | int | float | bool


def _option_value(value: object) -> OptionValue:
    if isinstance(value, str | int | float):
        return value
    raise refusal("BAD_TYPE", f"an option must be text, a number or true/false, not {toml_type(value)}")


def _flatten(value: object) -> object:
    """Dotted keys of an options table arrive as nested tables; Spark's options are flat."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, object] = {}
    for name, item in value.items():
        inner = _flatten(item)
        if isinstance(inner, dict):
            flat |= {f"{name}.{rest}": part for rest, part in inner.items()}
        else:
            flat[str(name)] = inner
    return flat


_SCALAR_SCHEMA = {"type": ["string", "number", "boolean"]}
OptionMap: TypeAlias = Annotated[
    dict[str, Annotated[OptionValue, PlainValidator(_option_value)]],
    BeforeValidator(_flatten),
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [_SCALAR_SCHEMA, {"type": "object"}]}}),
]
"""A free table of options for Spark; a nested table is a dotted name."""


def _names(value: object) -> object:
    """One name or a list of names, as a tuple."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


_NAMES_SCHEMA = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}]
}
Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_names), WithJsonSchema(_NAMES_SCHEMA)]
"""A name or a list of names."""

Texts: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _identifier(value: str) -> str:
    if not _IDENTIFIER.fullmatch(value):
        hint = "letters, digits and _, not starting with a digit: SQL calls it by this name"
        raise refusal("BAD_NAME", f"`{value}` cannot be a name", hint)
    return value


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise refusal("BAD_NAME", f"`{value}` cannot be a name", "letters, digits, _ and -, not starting with a digit")
    return value


RelationName: TypeAlias = Annotated[str, BeforeValidator(_identifier)]
Label: TypeAlias = Annotated[str, BeforeValidator(_label)]


def toml_type(value: object) -> str:
    """What TOML calls the type of `value`, for messages."""
    if isinstance(value, bool):
        return "true/false"
    known = {str: "text", int: "a whole number", float: "a number", list: "a list", tuple: "a list", dict: "a table"}
    return next((name for kind, name in known.items() if isinstance(value, kind)), f"a {type(value).__name__}")
