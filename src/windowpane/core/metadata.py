"""Small typed records in JSON: a dataclass to a dict, and back with its types checked."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from windowpane.errors import StateError


class Record(Protocol):
    """Any dataclass whose fields are scalars, lists or dicts of scalars."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Kind = TypeVar("Kind", bound=Record)


def encode_record(record: Record) -> dict[str, object]:
    """The fields by name."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def decode_record(kind: type[Kind], stored: Mapping[str, object]) -> Kind:
    """The record that `encode_record` was given. Missing fields have defaults; StateError if one does not fit."""
    found: dict[str, object] = {}
    for name, accepted, optional in _fields(kind):
        if name in stored and isinstance(stored[name], accepted):
            found[name] = stored[name]
        elif name in stored or not optional:
            raise StateError("STATE_CORRUPT", f"`{name}` is {stored.get(name)!r} in the state of {kind.__qualname__}")
    return kind(**found)


@cache
def _fields(kind: type[Record]) -> list[tuple[str, tuple[type, ...], bool]]:
    """Of each field its name, the Python types of its values in JSON, and whether it has a default."""
    hints = get_type_hints(kind)
    return [
        (each.name, _accepted(hints[each.name]), each.default is not MISSING or each.default_factory is not MISSING)
        for each in fields(kind)
    ]


def _accepted(hint: Any) -> tuple[type, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(accepted for part in get_args(hint) for accepted in _accepted(part))
    return (get_origin(hint) or hint,)
