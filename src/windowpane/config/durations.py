"""Durations and triggers: texts in pipeline.toml, int microseconds in the models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import PlainSerializer, PlainValidator, SerializationInfo, WithJsonSchema
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
