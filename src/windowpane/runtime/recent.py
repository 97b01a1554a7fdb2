"""Keeps the latest rows and events of a running pipeline in its checkpoint, for the live page.

Nothing depends on them, so that a write that fails does not matter.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from windowpane.checkpoint.recent import KEPT_EVENTS, Event, EventLog, RecentFile, event_now
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError
from windowpane.remote.objects import scheme_of
from windowpane.spark.recent_rows import RecentRows

EVERY_SECONDS, REMOTE_SECONDS = 1.0, 5.0
"""How often they are written at most: in a folder, and where each write is a request."""
_ALIVE = ("starting", "running", "draining")


class RecentKeeper(logging.Handler):
    """Hears the warnings of windowpane as events. `save` writes what is new, called a few times a second."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._file, self._log, self._clock = RecentFile(store), EventLog(store), clock
        self._every = REMOTE_SECONDS if scheme_of(store.address()) else EVERY_SECONDS
        self._next, self._saving = 0.0, threading.Lock()
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._rows: dict[str, RecentRows] = {}
        self._documents: dict[str, Any] = {}
        with contextlib.suppress(StateError):
            self._documents = self._file.read()
        self.note(*_start(store))

    def listen(self) -> None:
        """From now on, warnings are events, until `close`."""
        logging.getLogger("windowpane").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.note("warning", record.getMessage())
        if logging.lastResort is not None and self._is_alone(record.name):
            logging.lastResort.handle(record)

    def _is_alone(self, name: str) -> bool:
        """Whether nothing else hears a logger. Python prints its warnings then, and this handler would prevent that."""
        logger: logging.Logger | None = logging.getLogger(name)
        heard: list[logging.Handler] = []
        while logger is not None:
            heard += logger.handlers
            logger = logger.parent if logger.propagate else None
        return heard[0] is self and all(isinstance(each, RecentKeeper) for each in heard)

    def note(self, kind: str, text: str) -> None:
        """Something has happened."""
        self._events.append(event_now(kind, text))

    def before(self, transform: str) -> dict[str, Any]:
        """What is known of a transform so far."""
        found = self._documents.get(transform)
        return found if isinstance(found, dict) else {}

    def keep(self, transform: str, rows: RecentRows) -> None:
        """The rows of a transform from now on."""
        self._rows[transform] = rows

    def save(self, *, last: bool = False) -> None:
        """Write what is new, unless that was done a moment ago. `last`: the pipeline ends."""
        with self._saving:
            if not last and self._clock() < self._next:
                return
            self._next = self._clock() + self._every
            with contextlib.suppress(Exception):  # whatever it is, the pipeline goes on
                self._save_rows(last=last)
            with contextlib.suppress(StateError):
                self._save_events()

    def _save_rows(self, *, last: bool) -> None:
        changed = {name: rows for name, rows in self._rows.items() if rows.changed or last}
        for name, rows in changed.items():
            self._documents[name] = rows.document(last=last)
        if changed:
            self._file.write({name: each for name, each in self._documents.items() if name in self._rows})

    def _save_events(self) -> None:
        events = [self._events.popleft() for _ in range(len(self._events))]
        if events:
            self._log.add(events)

    def close(self) -> None:
        logging.getLogger("windowpane").removeHandler(self)
        super().close()


def _start(store: Store) -> tuple[str, str]:
    """The first event of a process: whether it goes on where another one was lost."""
    own, before = f"process {os.getpid()} on {socket.gethostname()} runs the pipeline", None
    with contextlib.suppress(StateError):
        before = StatusFile(store).read()
    if before is None:
        return "start", own
    if before["state"] in _ALIVE:
        return "restart", f"{own}; process {before['pid']} before it ended unexpectedly"
    return "restart", f"{own}, which had {before['state']}"
