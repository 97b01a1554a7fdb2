"""Gets a savepoint of a pipeline from another process: by asking the one that runs, or by taking it if none does."""

from __future__ import annotations

import time

from windowpane.checkpoint.control import SavepointRequest, new_id
from windowpane.checkpoint.questions import answered
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import jobs_to_keep, take_savepoint
from windowpane.checkpoint.savepoints import Savepoint, Savepoints, check_name
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError


def get_savepoint(store: Store, name: str, timeout: float) -> Savepoint:
    """StateError if it cannot be taken, or the running pipeline does not answer in time. Needs no Spark."""
    check_name(name)
    jobs_to_keep(store)  # before the lease, which makes files
    deadline = time.monotonic() + timeout
    while True:
        lock = RunLock(store)
        if not lock.held():
            return _taken_here(lock, name)
        try:
            answer = answered(store, lock, SavepointRequest(name, new_id()), deadline)
        except StateError as failed:
            raise _no_answer(store) if failed.code == "NO_ANSWER" else failed from None
        if answer is not None:
            return Savepoints(store).find(name)


def _taken_here(lock: RunLock, name: str) -> Savepoint:
    held = lock.acquire()
    try:
        return take_savepoint(held, name)
    finally:
        lock.release()


def _no_answer(store: Store) -> StateError:
    return StateError(
        "NO_ANSWER",
        f"the pipeline on {store.address()} has not taken the savepoint in time",
        "it does so between two micro-batches: wait longer with --timeout. "
        "windowpane savepoints shows whether it was taken since",
    )
