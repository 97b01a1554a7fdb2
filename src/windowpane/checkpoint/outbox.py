"""Side rows that wait for one sink: a file per micro-batch in the checkpoint, written before Spark commits the batch.

So a sink that is away holds up nothing, and a process that dies loses nothing: what was not delivered is delivered by
the next start, under the same batch ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import SideRows
from windowpane.core.wire import pack_frames, unpack_frames
from windowpane.durable import corrupt, read_object, write_whole
from windowpane.errors import StateError, gist

DAMAGED = ".damaged"
_NAME = re.compile(r"(\d{12})-(\d+)\.side")

COUNT_FILE = "delivered.json"


@dataclass(frozen=True)
class Waiting:
    """The side rows of one micro-batch. `texts` are records that are JSON already."""

    batch_id: int
    batches: Sequence[pa.RecordBatch]
    texts: Sequence[str] = ()
    final: bool = False
    """Of the last batch of a graceful end."""

    @property
    def rows(self) -> int:
        return sum((int(batch.num_rows) for batch in self.batches), len(self.texts))

    def packed(self) -> bytes:
        """All of it in one payload, which `SideRecords` can read too."""
        frames = [SideRows(batch) for batch in self.batches]
        return pack_frames(frames, Accounting(), batch_id=self.batch_id, texts=list(self.texts), final=self.final)

    @classmethod
    def unpacked(cls, payload: bytes) -> Waiting:
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


class Outbox:
    """Files `<batch>-<rows>.side` in `folder`, each there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, waiting: Waiting) -> None:
        """Durable when this returns. A batch that comes again replaces what it had left."""
        self.remove(waiting.batch_id)
        write_whole(self.path(waiting.batch_id, waiting.rows), waiting.packed())

    def path(self, batch_id: int, rows: int) -> Path:
        """Where the rows of a batch wait."""
        return self.folder / f"{batch_id:012}-{rows}.side"

    def waiting(self) -> dict[int, int]:
        """Rows by batch, in order of batches."""
        return {batch_id: rows for batch_id, rows, _ in self._files()}

    def read(self, batch_id: int) -> Waiting:
        """StateError when the file is gone or damaged."""
        for found, _, path in self._files():
            if found == batch_id:
                if path.is_dir():
                    raise corrupt(path, "it is a folder")
                return _unpacked(path, path.read_bytes())
        raise StateError("OUTBOX_CHANGED", f"the side rows of batch {batch_id} are gone from {self.folder}")

    def set_aside(self, batch_id: int, rows: int) -> list[Path]:
        """Rename what cannot be read, so that it is kept and holds up nothing. `rows`: how many are lost with it."""
        self._count(batch_id, lost=rows)
        found = list(self.folder.glob(f"{batch_id:012}-*.side"))
        return [path.replace(path.with_name(f"{path.name}{DAMAGED}")) for path in found]

    def aside(self) -> list[str]:
        """Names of the files that could not be read."""
        return sorted(path.name for path in self.folder.glob(f"*{DAMAGED}"))

    def remove(self, batch_id: int) -> None:
        for path in self.folder.glob(f"{batch_id:012}-*.side"):
            path.unlink(missing_ok=True)

    def delivered(self) -> int:
        """Rows that the sink has taken since the checkpoint began."""
        return self._counted().rows

    def note_delivered(self, batch_id: int, rows: int) -> int:
        """The sink has taken this batch: count it, once though it may come again, and remove it. Gives the count."""
        total = self._count(batch_id, rows=rows).rows
        self.remove(batch_id)
        return total

    def handed_over(self, until: int) -> int | None:
        """Rows that the batches up to `until` have ever put here: delivered, lost or waiting.

        None after a later batch has left: its rows are among those delivered.
        """
        files = self._files()  # before the count, which a delivery changes before it removes the file
        counted = self._counted()
        if counted.batch_id > until:
            return None
        waiting = sum(rows for batch_id, rows, _ in files if counted.batch_id < batch_id <= until)
        return counted.rows + counted.lost + waiting

    def settled_until(self) -> int:
        """The last batch that was delivered or set aside; -1 at the beginning. Batches leave in order."""
        return self._counted().batch_id

    def _count(self, batch_id: int, *, rows: int = 0, lost: int = 0) -> _Counted:
        counted = self._counted()
        if batch_id > counted.batch_id:
            counted = _Counted(counted.rows + rows, batch_id, counted.lost + lost)
            write_whole(self.folder / COUNT_FILE, json.dumps(counted._asdict()))
        return counted

    def _counted(self) -> _Counted:
        path = self.folder / COUNT_FILE
        found = read_object(path, {"rows": int, "batch_id": int})
        if found is None:
            return _Counted(0, -1, 0)
        lost = found.get("lost", 0)  # earlier versions did not count it
        if type(lost) is not int:
            raise corrupt(path, "`lost` is of another type")
        return _Counted(found["rows"], found["batch_id"], lost)

    def forget_after(self, batch_id: int) -> None:
        """Batches after this one were never committed: they come again."""
        for found in self.waiting():
            if found > batch_id:
                self.remove(found)

    def _files(self) -> list[tuple[int, int, Path]]:
        """A file of another name is none of ours, and is left alone."""
        files = [(_NAME.fullmatch(path.name), path) for path in sorted(self.folder.glob("*.side"))]
        return [(int(named[1]), int(named[2]), path) for named, path in files if named]


def _unpacked(path: Path, payload: bytes) -> Waiting:
    try:
        return Waiting.unpacked(payload)
    except Exception as broken:  # whatever a damaged file makes the readers of JSON and Arrow raise
        raise corrupt(path, gist(broken)) from broken
