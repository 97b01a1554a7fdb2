"""Undelivered side rows of one sink: a file per micro-batch, written before Spark commits the batch.

An unreachable sink therefore stops nothing, and a process that dies loses nothing: the next start delivers the rows
under the same batch ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from windowpane.checkpoint.records import change_record, read_object, take_over
from windowpane.checkpoint.store import Store, corrupt
from windowpane.core.accounting import Accounting
from windowpane.core.frames import SideRows
from windowpane.core.wire import pack_frames, unpack_frames
from windowpane.errors import StateError, gist

COUNT_FILE = "delivered.json"
_UNREADABLE = ".damaged"
_NAME = re.compile(r"(\d{12})-(\d+)(?:-(\d+))?\.side")


@dataclass(frozen=True)
class PendingBatch:
    """The side rows of one micro-batch for one sink. `texts` are records that are JSON already."""

    batch_id: int
    batches: Sequence[pa.RecordBatch]
    texts: Sequence[str] = ()
    final: bool = False
    """Whether this is the last batch of a graceful end."""

    @property
    def rows(self) -> int:
        return sum((int(batch.num_rows) for batch in self.batches), len(self.texts))

    def packed(self) -> bytes:
        """All of it in one payload, which `SideRecords` can read too."""
        frames = [SideRows(batch) for batch in self.batches]
        return pack_frames(frames, Accounting(), batch_id=self.batch_id, texts=list(self.texts), final=self.final)

    @classmethod
    def unpacked(cls, payload: bytes) -> PendingBatch:
        frames, _, meta = unpack_frames(payload)
        texts = meta["texts"]
        assert isinstance(texts, list)
        batches = [frame.batch for frame in frames if isinstance(frame, SideRows)]
        return cls(int(str(meta["batch_id"])), batches, tuple(texts), bool(meta["final"]))


class _Counted(NamedTuple):
    """What has left the outbox: rows delivered, the last batch, and rows that could not be read."""

    rows: int
    batch_id: int
    lost: int


class _File(NamedTuple):
    batch_id: int
    fence: int
    rows: int
    name: str


class Outbox:
    """Files `<batch>-<rows>-<fence>.side`, each there whole or not at all.

    The fence is that of the process that has written the file. What a process that has lost its lease writes or removes
    late is therefore never the file of the one after it, which counts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, pending: PendingBatch) -> None:
        """Durable when this returns. A replayed batch replaces what an earlier attempt has put here."""
        self.remove(pending.batch_id)
        self._store.replace(_name(pending.batch_id, pending.rows, self._store.fence), pending.packed())

    def address(self, name: str = "") -> str:
        """Where the outbox is, or one of its files."""
        return self._store.address(name)

    def address_of(self, batch_id: int, rows: int, fence: int) -> str:
        """Where the process of this number stores the rows of a batch."""
        return self._store.address(_name(batch_id, rows, fence))

    def pending(self) -> dict[int, int]:
        """Numbers of undelivered rows by batch, in order of batches."""
        settled = self.settled_until()
        return {file.batch_id: file.rows for file in self._latest() if file.batch_id > settled}

    def read(self, batch_id: int) -> PendingBatch:
        """StateError if the file is gone or damaged."""
        for file in self._latest():
            payload = self._store.read(file.name) if file.batch_id == batch_id else None
            if payload is not None:
                return _unpacked(self._store.address(file.name), payload)
        raise StateError("OUTBOX_CHANGED", f"the side rows of batch {batch_id} are gone from {self.address()}")

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
        """Remove batches after this one, which were never committed and will be replayed, and those that have left."""
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
            counted = _Counted(counted.rows + rows, batch_id, counted.lost + lost)
            change_record(self._store, COUNT_FILE, counted._asdict(), known)
        return counted

    def _counted(self) -> _Counted:
        found = read_object(self._store, COUNT_FILE, {"rows": int, "batch_id": int})
        if found is None:
            return _Counted(0, -1, 0)
        lost = found.get("lost", 0)  # earlier versions did not count it
        if type(lost) is not int:
            raise corrupt(self.address(COUNT_FILE), "`lost` is of another type")
        return _Counted(found["rows"], found["batch_id"], lost)

    def _files(self) -> list[_File]:
        """Files with other names are ignored."""
        named = [match for name in self._store.names() if (match := _NAME.fullmatch(name))]
        return sorted(_File(int(match[1]), int(match[3] or 0), int(match[2]), match[0]) for match in named)

    def _latest(self) -> list[_File]:
        """The file of each batch that counts: that of the last process which has written one."""
        return list({file.batch_id: file for file in self._files()}.values())


def _name(batch_id: int, rows: int, fence: int) -> str:
    return f"{batch_id:012}-{rows}-{fence}.side" if fence else f"{batch_id:012}-{rows}.side"


def _unpacked(address: str, payload: bytes) -> PendingBatch:
    try:
        return PendingBatch.unpacked(payload)
    except Exception as broken:  # whatever a damaged file makes the readers of JSON and Arrow raise
        raise corrupt(address, gist(broken)) from broken
