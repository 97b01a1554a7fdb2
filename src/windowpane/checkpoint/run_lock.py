"""The lock of a pipeline's checkpoint: at most one process runs on it."""

from __future__ import annotations

from windowpane.checkpoint.store import Store
from windowpane.errors import StateError

LOCK_FILE = "run.lock"


class RunLock:
    """The store's lease, with an error for the user if another process holds it."""

    def __init__(self, store: Store) -> None:
        self._address, self._lease = store.address(), store.lease(LOCK_FILE)

    def acquire(self) -> None:
        if not self._lease.acquire():
            raise in_use(self._address)

    def held(self) -> bool:
        """Whether a process runs here right now."""
        return self._lease.held()

    def release(self) -> None:
        self._lease.release()


def in_use(checkpoint: str) -> StateError:
    """The error for a second process on a checkpoint. `checkpoint` is its address."""
    message = f"another process runs on the checkpoint {checkpoint}"
    return StateError("CHECKPOINT_IN_USE", message, "stop it first: windowpane stop")
