"""Instants: texts or dates in pipeline.toml, int microseconds in the models."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, TypeAlias

from pydantic import PlainSerializer, PlainValidator, SerializationInfo, WithJsonSchema

from windowpane.config.secrets import quoted
from windowpane.config.settings import refusal
from windowpane.errors import ConfigError
from windowpane.time import format_instant, parse_instant

EXAMPLES = '"2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00"'


def _instant(value: object) -> int:
    """An instant that means the same whenever the file is read, so neither `now` nor a distance from it."""
    text = value.isoformat() if isinstance(value, (dt.date, dt.datetime)) else value
    try:
        if isinstance(text, str) and text.strip()[:1].isdigit():
            return parse_instant(text, 0)
    except ConfigError:
        pass
    raise refusal("BAD_INSTANT", f"{quoted(value)} is not an instant", f"write it like {EXAMPLES}")


def _written(us: int | None, info: SerializationInfo) -> int | str | None:
    return us if us is None or not info.by_alias else format_instant(us)


OptionalInstant: TypeAlias = Annotated[
    int | None,
    PlainValidator(_instant),
    PlainSerializer(_written),
    WithJsonSchema({"type": "string", "examples": ["2026-01-31", "2026-01-31T12:00:00Z"]}),
]
"""Microseconds since the epoch; None when the key is not given."""
