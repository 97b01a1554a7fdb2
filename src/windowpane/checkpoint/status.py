"""`status.json`: what a running pipeline reports about itself, for other processes to read."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from windowpane.checkpoint.records import Shape, encoded, read_object
from windowpane.checkpoint.store import Store, corrupt
from windowpane.errors import StateError

_FILE = "status.json"
_REMOVE = "remove it: the next start writes it anew"
_SHAPE: Shape = {
    "state": str,
    "pid": int,
    "started_us": int,
    "updated_us": int,
    "transforms": dict,
    "error": (dict, NoneType),
}


class StatusFile:
    """The status document in a pipeline's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> dict[str, Any] | None:
        """The last status; None if nothing has ever run here."""
        return read_object(self._store, _FILE, _SHAPE, _REMOVE)

    def write(self, document: Mapping[str, Any]) -> None:
        """Not synced to disk, which would take a micro-batch milliseconds: a power failure ends what it describes."""
        self._store.replace(_FILE, encoded(document), durable=False)

    def damaged(self, reason: object) -> StateError:
        """The error for a status whose inner parts cannot be used."""
        return corrupt(self._store.address(_FILE), reason, _REMOVE)
