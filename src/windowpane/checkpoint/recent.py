"""`recent.json` and `events.json`: the latest rows, windows and events of a pipeline, for the live page.

Both are small, bounded and not synced to disk. Nothing but the page depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from windowpane.checkpoint.records import FORMAT, encoded, read_object
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError

RECENT_FILE, EVENTS_FILE = "recent.json", "events.json"
KEPT_EVENTS = 200
_REMOVE = "remove it: the next start writes it anew"


class RecentFile:
    """The latest results, side rows and windows, by transform."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> dict[str, Any]:
        """Empty if nothing was kept; StateError if the file is damaged."""
        content = read_object(self._store, RECENT_FILE, {"transforms": dict}, _REMOVE)
        return {} if content is None else dict(content["transforms"])

    def write(self, transforms: Mapping[str, Any]) -> None:
        content = {"format": FORMAT, "transforms": transforms}
        self._store.replace(RECENT_FILE, encoded(content, indent=None), durable=False)


@dataclass(frozen=True)
class Event:
    """Something that happened to a pipeline."""

    at_us: int
    kind: str
    """A state of the pipeline (`running`, `stopped` …), `warning`, `rescale` or `savepoint`."""
    text: str


def event_now(kind: str, text: str) -> Event:
    """An event of this moment."""
    return Event(time.time_ns() // 1000, kind, text)


class EventLog:
    """The latest events. Only the holder of the lease may add any."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> list[dict[str, Any]]:
        """The oldest first; StateError if the file is damaged."""
        content = read_object(self._store, EVENTS_FILE, {"events": list}, _REMOVE)
        return [] if content is None else [each for each in content["events"] if isinstance(each, dict)]

    def add(self, events: Iterable[Event]) -> None:
        """Add events; those of a damaged file are given up."""
        try:
            known = self.read()
        except StateError:
            known = []
        kept = [*known, *map(asdict, events)][-KEPT_EVENTS:]
        self._store.replace(EVENTS_FILE, encoded({"format": FORMAT, "events": kept}, indent=None), durable=False)
