"""The `Store` protocol: where a checkpoint keeps its objects, and what every implementation promises.

Everything that windowpane writes into a checkpoint goes through a store. A new kind of place is one implementation of
`Store` that passes tests/checkpoint/test_store.py. `StoreLease` is a lease over any of them.
"""

from __future__ import annotations

from typing import Protocol, Self

from windowpane.errors import StateError

UNAVAILABLE = "STATE"
"""The code of errors of a place that refuses or does not answer. What is there may be fine."""
CORRUPT = "CHECKPOINT_CORRUPT"
"""The code of errors of something that is there and cannot be used."""
RESTORE = "restore it from a copy, or set another `checkpoint` folder to start anew"


class Lease(Protocol):
    """The right of one process to run on a checkpoint."""

    @property
    def fence(self) -> int:
        """The number of this holder, greater than those of all before it. 0 before it has ever had the lease."""
        ...

    def acquire(self) -> bool:
        """Take the lease; False if another holder has it. May wait until it is certain that the holder is gone.

        It is held until `release`, or until the process has not renewed it for too long.
        """
        ...

    def held(self) -> bool:
        """Whether anyone holds the lease now. Does not create anything."""
        ...

    def release(self) -> None:
        """Give the lease back. Does nothing if this object does not hold it."""
        ...

    def check(self) -> None:
        """StateError `LEASE_LOST` if another process has taken the lease over since `acquire`.

        Does nothing for one that was never acquired.
        """
        ...


class Store(Protocol):
    """Named objects below one root. Names are relative and use `/`.

    All methods may be called from several threads. A change is durable when its method returns. Methods that change
    something raise StateError `STATE` if the place refuses the change (`unwritable`); `read` raises StateError
    `CHECKPOINT_CORRUPT` for something that is there but cannot be read (`corrupt`), and `STATE` if the place does not
    answer (`unreadable`). Nothing else escapes. Whether an object and a folder can have the same name depends on the
    place.
    """

    @property
    def fence(self) -> int:
        """The number of the holder of the lease if this store is for the holder alone, otherwise 0."""
        ...

    def address(self, name: str = "") -> str:
        """The name of an object, or of the root, for messages: a path or a URI."""
        ...

    def spark_path(self, name: str = "") -> str:
        """The absolute path or URI of an object, a folder or the root for Spark, as its logs have it."""
        ...

    def below(self, name: str) -> Self:
        """The store whose root is the folder `name` of this one. Creates nothing."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a new object, whole or not at all. False, and nothing changes, if the name is taken.

        Of several processes that create one name at the same time, exactly one gets True.
        """
        ...

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write an object, new or not. Readers see the old content or the new one, never a part.

        Without `durable`, the object may be missing, old or damaged after a power failure.
        """
        ...

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        """Write an object if its content still is `known`, or if it is not there and `known` is None.

        False, and nothing changes, otherwise. Where a place has no condition for this, a process that is paused between
        the comparison and the write may still overwrite what is there; a new object is always created once.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if it is not there."""
        ...

    def exists(self, name: str) -> bool:
        """Whether an object or a folder of this name is there."""
        ...

    def names(self) -> list[str]:
        """The sorted names of the objects and folders directly below the root, without unfinished writes.

        Empty if the root is not there.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Give an object, readable or not, another name. Does nothing if it is not there.

        A process that dies meanwhile may leave both names, never none.
        """
        ...

    def copy(self, name: str, to: str) -> None:
        """Copy an object, or a folder with everything below it. Does nothing if it is not there."""
        ...

    def adopt(self, source: Store, name: str, to: str) -> bool:
        """Take over the object `name` of a store, this one or another, as `to`. False if it is not there.

        The object must never be changed in place: where it can, the place shares its bytes (a hard link) or copies them
        itself. Durable only after `sync` of a folder above `to`.
        """
        ...

    def sizes(self, name: str) -> dict[str, int]:
        """The sizes in bytes of all objects below a folder, by their names from there, without unfinished writes."""
        ...

    def delete(self, name: str, *, durable: bool = True) -> None:
        """Remove an object. Does nothing if it is not there."""
        ...

    def clear(self, name: str) -> None:
        """Remove an object or a folder with everything below it. Does nothing if it is not there."""
        ...

    def make_folder(self, name: str) -> None:
        """Make an empty folder that Spark's file source accepts: it refuses one that does not exist."""
        ...

    def sync(self, name: str) -> None:
        """Make durable what Spark has written to a folder and below."""
        ...

    def sweep(self) -> None:
        """Remove what killed processes have left of unfinished writes directly below the root.

        Only the holder of the lease may call it.
        """
        ...

    def lease(self, name: str) -> Lease:
        """The lease called `name`. It is not an object of the store, but its name is taken."""
        ...


def exchange_by_comparison(store: Store, name: str, data: bytes, known: bytes | None) -> bool:
    """`Store.exchange` for a place that has no condition for it."""
    if known is None:
        return store.create(name, data)
    if store.read(name) != known:
        return False
    store.replace(name, data)
    return True


def adopt_by_reading(store: Store, source: Store, name: str, to: str) -> bool:
    """`Store.adopt` for objects of another kind of place."""
    data = source.read(name)
    if data is not None:
        store.replace(to, data, durable=False)
    return data is not None


def corrupt(address: object, reason: object, hint: str = RESTORE) -> StateError:
    """The error for a part of a checkpoint that is there but cannot be used."""
    return StateError(CORRUPT, f"{address} is damaged: {reason}", hint)


def unwritable(address: object, reason: str) -> StateError:
    """The error for a checkpoint that cannot be written, for example because the disk is full."""
    hint = "nothing is lost: once it can be written again, start the pipeline again"
    return StateError(UNAVAILABLE, f"the checkpoint cannot be written: {address}: {reason}", hint)


def unreadable(address: object, reason: str) -> StateError:
    """The error for a checkpoint whose place does not answer, or refuses to be read."""
    hint = "check the address, the network and the credentials; nothing has changed"
    return StateError(UNAVAILABLE, f"the checkpoint cannot be read: {address}: {reason}", hint)
