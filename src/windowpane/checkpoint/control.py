"""Requests from another process: a small file in the checkpoint that the running pipeline looks for."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Literal, TypeAlias

from windowpane.checkpoint.status import read_status
from windowpane.checkpoint.transform import RunLock
from windowpane.durable import read_object, write_whole, writing
from windowpane.errors import StateError

Request: TypeAlias = Literal["drain", "stop"]
REQUEST_FILE = "control.json"
_POLL_SECONDS = 0.1


class Requests:
    """The running pipeline's side."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUEST_FILE

    def forget(self) -> None:
        """Drop what was asked of the run before. To be called as soon as the lock is held: from then on a request is
        meant for this run, even while it is still starting.
        """
        with writing(self._path):
            self._path.unlink(missing_ok=True)

    def take(self) -> Request | None:
        """The request that has come, once."""
        try:
            content = read_object(self._path, {"request": str})
        except StateError:
            content = {}
        if content is None:
            return None
        self.forget()
        asked = content.get("request")
        return asked if asked in ("drain", "stop") else None


def ask(folder: Path, request: Request, timeout: float) -> str:
    """Ask the pipeline that runs on `folder`, wait until it has ended, and give the state it ended in."""
    lock = RunLock(folder)
    if not lock.held():
        raise StateError(
            "NOT_RUNNING", f"nothing runs on the checkpoint {folder}", "windowpane status says what was there last"
        )
    write_whole(folder / REQUEST_FILE, json.dumps({"request": request, "pid": os.getpid()}))
    deadline = time.monotonic() + timeout
    while lock.held():
        if time.monotonic() > deadline:
            raise StateError(
                "NO_ANSWER",
                f"the pipeline on {folder} has not ended within {timeout:g} s; the request remains in force",
                "wait longer with --timeout, or look at it with windowpane status",
            )
        time.sleep(_POLL_SECONDS)
    (folder / REQUEST_FILE).unlink(missing_ok=True)
    return str((read_status(folder) or {}).get("state", "stopped"))
