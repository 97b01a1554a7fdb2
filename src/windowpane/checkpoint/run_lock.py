"""The lock of a pipeline's checkpoint: at most one process runs on it, and only that one writes to it."""

from __future__ import annotations

from windowpane.checkpoint.fenced import FencedStore
from windowpane.checkpoint.store import Store
from windowpane.errors import StateError

LOCK_FILE = "run.lock"
LEASE_FOLDER = f"{LOCK_FILE}.lease"


class RunLock:
    """The store's lease, with an error for the user if another process holds it."""

    def __init__(self, store: Store) -> None:
        self._store, self._lease = store, store.lease(LOCK_FILE)

    def acquire(self) -> Store:
        """The store as long as the lock is held: what another process has taken over, this one no longer changes."""
        if not self._lease.acquire():
            raise in_use(self._store.address())
        return FencedStore(self._store, self._lease)

    @property
    def fence(self) -> int:
        """A number that grows with every holder."""
        return self._lease.fence

    def check(self) -> None:
        """StateError `LEASE_LOST` if another process has taken over."""
        self._lease.check()

    def held(self) -> bool:
        """Whether a process runs here right now."""
        return self._lease.held()

    def release(self) -> None:
        self._lease.release()


def in_use(checkpoint: str) -> StateError:
    """The error for a second process on a checkpoint. `checkpoint` is its address."""
    message = f"another process runs on the checkpoint {checkpoint}"
    return StateError("CHECKPOINT_IN_USE", message, "stop it first: windowpane stop")
