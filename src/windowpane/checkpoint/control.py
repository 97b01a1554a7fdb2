"""Requests from another process: a small file in the checkpoint that the running pipeline looks for."""

from __future__ import annotations

import os
import time
from typing import Literal, TypeAlias

from windowpane.checkpoint.records import encoded, read_object
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.store import UNAVAILABLE, Store
from windowpane.errors import StateError

Request: TypeAlias = Literal["drain", "stop"]
REQUEST_FILE = "control.json"
_POLL_SECONDS = 0.1


class Requests:
    """The requests to one pipeline."""

    def __init__(self, store: Store, every_seconds: float = 0.0) -> None:
        """`every_seconds`: how often `take` looks at most, where each look is a request that costs money or time."""
        self._store, self._every, self._looked = store, every_seconds, 0.0

    def forget(self) -> None:
        """Drop a request to the previous run.

        To be called as soon as the lock is held: from then on, requests are meant for this run, even while it starts.
        """
        self._store.delete(REQUEST_FILE)

    def put(self, request: Request) -> None:
        """Ask the running pipeline."""
        self._store.replace(REQUEST_FILE, encoded({"request": request, "pid": os.getpid()}, indent=None))

    def take(self) -> Request | None:
        """The request that has arrived, once."""
        if time.monotonic() < self._looked + self._every:
            return None
        self._looked = time.monotonic()
        try:
            content = read_object(self._store, REQUEST_FILE, {"request": str})
        except StateError as broken:
            if broken.code == UNAVAILABLE:
                return None
            content = {}
        if content is None:
            return None
        self.forget()
        asked = content.get("request")
        return asked if asked in ("drain", "stop") else None


def ask(store: Store, request: Request, timeout: float) -> str:
    """Ask the pipeline that runs on `store` to end, wait until it has, and return the state it ended in."""
    lock, requests = RunLock(store), Requests(store)
    if not lock.held():
        raise StateError(
            "NOT_RUNNING",
            f"nothing runs on the checkpoint {store.address()}",
            "windowpane status says what was there last",
        )
    requests.put(request)
    deadline = time.monotonic() + timeout
    while lock.held():
        if time.monotonic() > deadline:
            raise StateError(
                "NO_ANSWER",
                f"the pipeline on {store.address()} has not ended within {timeout:g} s; the request remains in force",
                "wait longer with --timeout, or look at it with windowpane status",
            )
        time.sleep(_POLL_SECONDS)
    requests.forget()
    return str((StatusFile(store).read() or {}).get("state", "stopped"))
