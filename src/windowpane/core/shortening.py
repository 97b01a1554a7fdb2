"""Side records cut to a maximum length, for sinks that refuse longer ones. Records name the fields that were cut."""

from __future__ import annotations

import json

CUT = "_truncated"
_FIELDS = ("original_event", "group_key", "error_detail")
"""The only fields of unlimited length, the least important first."""
_ROOM = 200
"""Bytes for the names of the fields that were cut."""


def shortened(text: str, max_bytes: int | None) -> str:
    """The record in at most `max_bytes` bytes (at least a few hundred). `truncated` lists the fields that were cut.

    A field that is an object becomes `{"_truncated": "the beginning of its JSON"}`.
    """
    if max_bytes is None or (len(text) <= max_bytes and len(text.encode()) <= max_bytes):
        return text
    record = json.loads(text)
    cut = list[str]()
    for name in _FIELDS:
        over = len(json.dumps(record)) + _ROOM - max_bytes
        if over <= 0:
            break
        if record.get(name) is not None:
            record[name] = _beginning(record[name], len(json.dumps(record[name])) - over)
            cut.append(name)
    return json.dumps(record | {"truncated": cut})


def _beginning(value: object, room: int) -> object:
    """The beginning of a value, in at most `room` bytes of JSON."""
    whole = value if isinstance(value, str) else json.dumps(value)
    widest = 2 if whole.isascii() and whole.isprintable() else 12
    begun = whole[: max(0, room - len(CUT) - 8) // widest]
    return begun if isinstance(value, str) else {CUT: begun}
