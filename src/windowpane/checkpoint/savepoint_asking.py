"""Gets a savepoint of a pipeline from another process: by asking the one that runs, or by taking it if none does."""

from __future__ import annotations

import time

from windowpane.checkpoint.control import Requests, new_savepoint_request
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import jobs_to_keep, take_savepoint
from windowpane.checkpoint.savepoints import Savepoint, Savepoints, check_name
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 2.0
"""How often to look whether the pipeline still runs."""


def get_savepoint(store: Store, name: str, timeout: float) -> Savepoint:
    """StateError if it cannot be taken, or the running pipeline does not answer in time. Needs no Spark."""
    check_name(name)
    jobs_to_keep(store)  # before the lease, which makes files
    deadline = time.monotonic() + timeout
    while True:
        lock = RunLock(store)
        if not lock.held():
            return _taken_here(lock, name)
        if _answered(store, lock, name, deadline):
            return Savepoints(store).find(name)


def _taken_here(lock: RunLock, name: str) -> Savepoint:
    held = lock.acquire()
    try:
        return take_savepoint(held, name)
    finally:
        lock.release()


def _answered(store: Store, lock: RunLock, name: str, deadline: float) -> bool:
    """Whether the running pipeline has taken the savepoint; False if it has ended before."""
    requests, asked = Requests(store), new_savepoint_request(name)
    is_sent, looked = False, time.monotonic()
    try:
        while time.monotonic() <= deadline:
            is_sent = is_sent or requests.put_savepoint(asked)
            answer = requests.answered(asked)
            if answer is not None:
                _check(answer.get("error"))
                return True
            if time.monotonic() > looked + _LOOK_SECONDS:
                if not lock.held():
                    return False
                looked = time.monotonic()
            time.sleep(_POLL_SECONDS)
    finally:
        requests.withdraw(asked)
    raise StateError(
        "NO_ANSWER",
        f"the pipeline on {store.address()} has not taken the savepoint in time",
        "it does so between two micro-batches: wait longer with --timeout. "
        "windowpane savepoints shows whether it was taken since",
    )


def _check(error: object) -> None:
    if isinstance(error, dict):
        hint = error.get("hint")
        raise StateError(str(error.get("code")), str(error.get("message")), str(hint) if hint else None)
