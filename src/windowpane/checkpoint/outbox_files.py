"""Files of one sink that are not delivered yet, one per micro-batch, written before Spark commits the batch.

An unreachable sink therefore stops nothing, and a process that dies loses nothing: the next start delivers the files
under the same batch ids. `outbox.py` keeps side rows in them, `result_outbox.py` results.
"""

from __future__ import annotations

import abc
from typing import Generic, NamedTuple, Protocol, TypeVar

from windowpane.checkpoint.records import change_record, read_object, take_over
from windowpane.checkpoint.store import Store, corrupt
from windowpane.errors import StateError, gist

COUNT_FILE = "delivered.json"
_UNREADABLE = ".damaged"
_SINCE_LATER_VERSIONS = {"lost": 0, "last_rows": -1, "last_lost": 0}


class Undelivered(Protocol):
    """The rows of one micro-batch."""

    @property
    def batch_id(self) -> int: ...

    @property
    def rows(self) -> int: ...

    def packed(self) -> bytes: ...


P = TypeVar("P", bound=Undelivered)


class _Counted(NamedTuple):
    """What has left the outbox: rows delivered, the last batch, and rows that could not be read."""

    rows: int
    batch_id: int
    lost: int
    last_rows: int = -1
    last_lost: int = 0
    """How many of these rows are of the last batch; -1 rows in records of earlier versions."""


class OutboxFile(NamedTuple):
    """What the name of a file says. `size`: bytes; `since_us`: when the batch began to wait; 0 for side rows."""

    batch_id: int
    fence: int
    rows: int
    name: str
    size: int = 0
    since_us: int = 0


class OutboxFiles(abc.ABC, Generic[P]):
    """One file per batch, each there whole or not at all.

    A name ends with the fence of the process that has written the file. What a process that has lost its lease writes
    or removes late is therefore never the file of the one after it, which counts.
    """

    holds: str
    """What is in the files, for messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @abc.abstractmethod
    def parsed(self, name: str) -> OutboxFile | None:
        """What a name says; None for other files."""

    @abc.abstractmethod
    def named(self, pending: P) -> str:
        """The name of a batch's file."""

    @abc.abstractmethod
    def address_of(self, batch_id: int, rows: int, fence: int) -> str:
        """Where the process of this number stores the rows of a batch."""

    @abc.abstractmethod
    def unpacked(self, payload: bytes) -> P:
        """The content of a file. May raise anything if it is damaged."""

    def put(self, pending: P) -> None:
        """Durable when this returns. A replayed batch replaces what an earlier attempt has put here."""
        self.remove(pending.batch_id)
        self._store.replace(self.named(pending), pending.packed())

    def address(self, name: str = "") -> str:
        """Where the outbox is, or one of its files."""
        return self._store.address(name)

    def pending(self) -> dict[int, int]:
        """Numbers of undelivered rows by batch, in order of batches."""
        return {file.batch_id: file.rows for file in self.files()}

    def files(self) -> list[OutboxFile]:
        """The files of undelivered batches, in order of batches."""
        settled = self.settled_until()
        return [file for file in self._latest() if file.batch_id > settled]

    def read(self, batch_id: int) -> P:
        """StateError if the file is gone or damaged."""
        for file in self._latest():
            payload = self._store.read(file.name) if file.batch_id == batch_id else None
            if payload is not None:
                return self._whole(self._store.address(file.name), payload)
        raise StateError("OUTBOX_CHANGED", f"the {self.holds} of batch {batch_id} are gone from {self.address()}")

    def set_aside(self, batch_id: int, rows: int) -> list[str]:
        """Rename files that cannot be read, so that they are kept and delivery continues. `rows`: how many are lost.

        Returns their new addresses.
        """
        self._count(batch_id, lost=rows)
        moved = {file.name: f"{file.name}{_UNREADABLE}" for file in self._files() if file.batch_id == batch_id}
        for name, new in moved.items():
            self._store.move(name, new)
        return [self._store.address(new) for new in moved.values()]

    def unreadable(self) -> list[str]:
        """Names of the files that could not be read."""
        return [name for name in self._store.names() if name.endswith(_UNREADABLE)]

    def remove(self, batch_id: int) -> None:
        """Remove the rows of a batch."""
        for file in self._files():
            if file.batch_id == batch_id:
                self._store.delete(file.name)

    def delivered(self) -> int:
        """Rows that the sink has taken since the checkpoint was created."""
        return self._counted().rows

    def lost(self) -> int:
        """Rows that could not be read, and were left out."""
        return self._counted().lost

    def note_delivered(self, batch_id: int, rows: int) -> int:
        """Count a delivered batch, once even if it is delivered again, and remove it. Returns the total."""
        total = self._count(batch_id, rows=rows).rows
        self.remove(batch_id)
        return total

    def handed_over(self, until: int) -> int | None:
        """Rows that the batches up to `until` have put here: delivered, lost or undelivered.

        None after a later batch has left: its rows are among those delivered.
        """
        files = self._latest()  # before the count, which a delivery changes before it removes the file
        counted = self._counted()
        if counted.batch_id > until:
            return None
        pending = sum(file.rows for file in files if counted.batch_id < file.batch_id <= until)
        return counted.rows + counted.lost + pending

    def settled_until(self) -> int:
        """The last batch that was delivered or set aside; -1 at the beginning. Batches leave in order."""
        return self._counted().batch_id

    def forget_after(self, batch_id: int) -> None:
        """Remove batches after this one, which were never committed and will be replayed, and those that have left.

        A batch that was delivered without being committed counts as not delivered: if it was that of a graceful end
        which was interrupted, other rows come under its number.
        """
        known, counted = self._store.read(COUNT_FILE), self._counted()
        if counted.batch_id > batch_id and counted.last_rows >= 0:
            rows, lost = counted.rows - counted.last_rows, counted.lost - counted.last_lost
            change_record(self._store, COUNT_FILE, _Counted(rows, batch_id, lost)._asdict(), known)
        settled = self.settled_until()
        for file in self._files():
            if file.batch_id > batch_id or file.batch_id <= settled:
                self._store.delete(file.name)

    def take_over(self) -> None:
        """To be called by a new holder of the lease: from now on, the holder before it counts nothing here."""
        take_over(self._store, COUNT_FILE)

    def sweep(self) -> None:
        """Remove unfinished writes of killed processes."""
        self._store.sweep()

    def _count(self, batch_id: int, *, rows: int = 0, lost: int = 0) -> _Counted:
        known, counted = self._store.read(COUNT_FILE), self._counted()
        if batch_id > counted.batch_id:
            counted = _Counted(counted.rows + rows, batch_id, counted.lost + lost, rows, lost)
            change_record(self._store, COUNT_FILE, counted._asdict(), known)
        return counted

    def _counted(self) -> _Counted:
        found = read_object(self._store, COUNT_FILE, {"rows": int, "batch_id": int})
        if found is None:
            return _Counted(0, -1, 0)
        others = {name: found.get(name, usual) for name, usual in _SINCE_LATER_VERSIONS.items()}
        for name, count in others.items():
            if type(count) is not int:
                raise corrupt(self.address(COUNT_FILE), f"`{name}` is of another type")
        return _Counted(found["rows"], found["batch_id"], **others)

    def _files(self) -> list[OutboxFile]:
        """Files with other names are ignored."""
        return sorted(file for name in self._store.names() if (file := self.parsed(name)) is not None)

    def _latest(self) -> list[OutboxFile]:
        """The file of each batch that counts: that of the last process which has written one."""
        return list({file.batch_id: file for file in self._files()}.values())

    def _whole(self, address: str, payload: bytes) -> P:
        try:
            return self.unpacked(payload)
        except Exception as broken:  # whatever a damaged file makes the readers of JSON and Arrow raise
            raise corrupt(address, gist(broken)) from broken
