"""Kinds of values that keys take, other than durations: texts, names, lists of names, rate limits, maps of options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from windowpane.config.durations import OFF
from windowpane.config.secrets import quoted
from windowpane.config.settings import refusal


def _some_text(value: str) -> str:
    if not value.strip():
        raise refusal("BAD_VALUE", "this string is empty", "set a value, or remove the key")
    return value


Text: TypeAlias = Annotated[str, AfterValidator(_some_text), WithJsonSchema({"type": "string", "minLength": 1})]


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def _place(value: str) -> str:
    """`file:///data/state` is `/data/state`. Other addresses need `//`; else they would be taken for folder names."""
    scheme = _SCHEME.match(value)
    if scheme is None:
        return value
    if scheme[0].lower() != "file:":
        rest = value[scheme.end() :]
        if not rest.startswith("//") or not rest.strip("/"):
            hint = "give a folder, or an address such as s3a://bucket/state or hdfs://namenode:8020/state"
            raise refusal("BAD_PATH", f"{quoted(value)} is neither a folder nor a whole address", hint)
        return value.rstrip("/")
    local = value[scheme.end() :]
    return f"/{local.lstrip('/')}" if local.startswith("/") else local


Place: TypeAlias = Annotated[Text, AfterValidator(_place)]
"""A folder, or an address that Hadoop's file systems know."""


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """`values`, refused when there are none or some twice."""
    if not values:
        raise refusal("BAD_VALUE", "this list is empty", "name at least one")
    if len(set(values)) < len(values):
        raise refusal("BAD_VALUE", "this list names something twice", "keep each name once")
    return values


def _rate(value: object) -> int | None:
    if value == OFF:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        hint = f'write a number of rows per second, or "{OFF}"'
        raise refusal("BAD_TYPE", f"the rate limit {quoted(value)} is not an integer", hint)
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


OptionValue: TypeAlias = str | int | float | bool


def _option_value(value: object) -> OptionValue:
    if isinstance(value, str | int | float):
        return value
    raise refusal("BAD_TYPE", f"an option must be a string, a number or a boolean, not {toml_type(value)}")


def _flatten(value: object) -> object:
    """Dotted keys of an options table arrive as nested tables; Spark's options are flat."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, object] = {}
    for name, item in value.items():
        inner = _flatten(item)
        parts = {f"{name}.{rest}": part for rest, part in inner.items()} if isinstance(inner, dict) else {name: inner}
        twice = sorted(flat.keys() & parts.keys())
        if twice:
            raise refusal("DUPLICATE_KEY", f"`{twice[0]}` is set twice", "keep one")
        flat |= parts
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

IDENTIFIER_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
LABEL_PATTERN = "^[A-Za-z_][A-Za-z0-9_-]*$"
_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_LABEL = re.compile(LABEL_PATTERN)


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
        return "a boolean"
    known = {str: "a string", int: "an integer", float: "a number", list: "a list", tuple: "a list", dict: "a table"}
    return next((name for kind, name in known.items() if isinstance(value, kind)), f"a {type(value).__name__}")
