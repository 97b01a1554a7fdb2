"""The output of a shard: small as rows for the driver, large in a file, from which sinks read it.

PySpark holds all rows that a shard gives until the shard is done, and the driver all that it collects. Millions of
results therefore leave a shard by a file in the checkpoint, which every executor can write, one payload after
another. The rows name the file. The driver removes it when the micro-batch is written.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.input_file import InputFile
from windowpane.remote.objects import client, is_object_store, key_of, obstore_module

OVERFLOW = "overflow"
"""The kind of a row that names a file and the payloads in it."""
DRIVER_BYTES = 16 * 1024 * 1024
"""How much of a micro-batch's output goes to the driver at most, over all shards."""
MAX_ROWS, MAX_BYTES = 131_072, 8 * 1024 * 1024
"""The size of a payload, about."""


@dataclass(frozen=True)
class Overflow:
    """Picklable: when the output of a shard goes to a file, and where. Without a folder it never does."""

    folder: str | None = None
    """A path, or an address of an object store."""
    limit: int = DRIVER_BYTES
    """Bytes of one shard that go to the driver."""
    access: Access = NO_ACCESS

    @classmethod
    def of(cls, folder: str | None, shards: int, access: Access = NO_ACCESS) -> Overflow:
        return cls(folder, DRIVER_BYTES // shards, access)


NO_OVERFLOW = Overflow()


@dataclass(frozen=True)
class Part:
    """A payload in a file."""

    path: str
    offset: int
    length: int

    def read(self, access: Access = NO_ACCESS) -> pa.Buffer:
        """The payload, mapped into memory if it is on a disk. `access`: how object stores are reached."""
        with InputFile(self.path, access).random_access() as file:
            file.seek(self.offset)
            return file.read_buffer(self.length)


class Outlet:
    """Takes the payloads of a shard in one micro-batch."""

    def __init__(self, overflow: Overflow) -> None:
        self._overflow, self._rows, self._size = overflow, list[tuple[str, bytes]](), 0
        self._file: IO[bytes] | None = None
        self._parts: list[tuple[str, int, int]] = []

    def put(self, kind: str, payload: bytes) -> None:
        self._size += len(payload)
        if self._overflow.folder is None or self._size <= self._overflow.limit:
            self._rows.append((kind, payload))
            return
        for each in [*self._rows, (kind, payload)]:
            self._write(self._overflow.folder, *each)
        self._rows = []

    def rows(self) -> list[tuple[str, bytes]]:
        """The payloads by kind, or where they are. Nothing is put afterwards."""
        if self._file is None:
            return self._rows
        self._file.flush()
        folder, place = self._overflow.folder or "", self._file.name
        if is_object_store(folder):
            place = f"{folder}/{uuid.uuid4().hex}"
            self._file.seek(0)
            obstore_module().put(client(folder, self._overflow.access), key_of(place), self._file)
        self._file.close()
        return [(OVERFLOW, json.dumps([place, self._parts]).encode())]

    def _write(self, folder: str, kind: str, payload: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile() if is_object_store(folder) else _file_in(Path(folder))  # noqa: SIM115
        self._parts.append((kind, self._file.tell(), len(payload)))
        self._file.write(payload)


def _file_in(folder: Path) -> IO[bytes]:
    number, path = tempfile.mkstemp(dir=folder)
    os.fchmod(number, folder.stat().st_mode & 0o666)
    os.close(number)
    return Path(path).open("wb")


def parts_in(payload: bytes) -> list[tuple[str, Part]]:
    """The kinds and places of the payloads that a row of kind OVERFLOW names."""
    path, parts = json.loads(payload)
    return [(kind, Part(path, offset, length)) for kind, offset, length in parts]


def parts_table(parts: Sequence[Part]) -> pa.Table:
    """The places as rows for Spark."""
    columns = zip(*map(astuple, parts), strict=True)
    return pa.table(dict(zip(("path", "offset", "length"), map(list, columns), strict=True)))


def in_payloads(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in batches that each make one payload."""
    wanted = min(MAX_ROWS, batch.num_rows * MAX_BYTES // max(batch.nbytes, 1))
    size = max(1, wanted)
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))
