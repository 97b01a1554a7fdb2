"""JSON objects in a store, read with their shape checked: damage is a StateError that names the object."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from windowpane.checkpoint.lease import lease_lost
from windowpane.checkpoint.store import RESTORE, Store, corrupt

FORMAT = 1
"""The version of the records' format, written as their key `format`."""
Shape = Mapping[str, type | tuple[type, ...]]
"""The keys that an object must have, with the types of their values."""
_T = TypeVar("_T")


def read_object(store: Store, name: str, shape: Shape, hint: str = RESTORE) -> dict[str, Any] | None:
    """The JSON object called `name`; None if it is not there."""
    data, address = store.read(name), store.address(name)
    if data is None:
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as broken:
        raise corrupt(address, f"no JSON ({broken})", hint) from broken
    if not isinstance(content, dict):
        raise corrupt(address, "no JSON object", hint)
    for key, kinds in shape.items():
        if key not in content or not _is(content[key], kinds):
            raise corrupt(address, f"`{key}` is missing or of another type", hint)
    return content


def _is(value: object, kinds: type | tuple[type, ...]) -> bool:
    """JSON's true is no number."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))


def typed(kind: TypeAdapter[_T], content: Mapping[str, Any], address: str, hint: str = RESTORE) -> _T:
    """The content of a record as the value it stands for; StateError if a part is missing or of another type."""
    try:
        return kind.validate_json(json.dumps(content), strict=True)
    except ValidationError as broken:
        where = ".".join(map(str, broken.errors()[0]["loc"]))
        raise corrupt(address, f"`{where}` is missing or of another type", hint) from broken


def change_record(store: Store, name: str, content: Mapping[str, Any], known: bytes | None) -> None:
    """Write a record that still is `known`, with the fence of the writer. StateError `LEASE_LOST` if it is not.

    `known` must have been read before this call, which checks the lease. A process that was away until now then finds a
    record that the one after it has written, at the latest when it took over (`take_over`).
    """
    if not store.exchange(name, encoded({**content, "fence": store.fence}), known):
        raise lease_lost(store.address(name))


def take_over(store: Store, name: str) -> None:
    """Put the fence of this process into a record, so that a change which an earlier holder has begun fails."""
    known = store.read(name)
    with contextlib.suppress(ValueError, RecursionError):  # a damaged record is reported by its reader
        content = json.loads(known or b"null")
        if isinstance(content, dict):
            change_record(store, name, content, known)


def encoded(content: Mapping[str, Any], *, indent: int | None = 1) -> bytes:
    """A record as it is stored."""
    return json.dumps(content, indent=indent).encode()
