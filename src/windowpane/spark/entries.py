"""State entries in Spark's map state. A micro-batch reads one small entry, and of the others those that it needs.

That entry, ROOT, has the names and sizes of all entries, the headers of the operators, which every micro-batch reads
and writes, and small entries, because each call to Spark's state is a round trip. State without ROOT was written by an
older version, with each header in an entry of its own; it is read as a whole once, and rewritten.

Entries that never change have a digest of their content in their names. `piece_cache.py` has copies of them.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from windowpane.core.blob import Blob
from windowpane.core.segments import DIGEST
from windowpane.core.state import EntryMap
from windowpane.spark.overflow import Part
from windowpane.spark.piece_cache import PieceCache, local_folder
from windowpane.spark.timings import MERGE, STATE_CALLS, timed

ROOT = "*"
"""Not the name of an operator's entry: those contain a slash."""
_LENGTH = 4
"""Bytes in front of ROOT's description that hold its length."""

SMALL_BYTES = 4096
"""The largest entry beside headers that ROOT contains."""
ROOT_BYTES = 8 * SMALL_BYTES
"""How large all of those together may become."""

NO_CACHE = PieceCache(None, 0)


class StoredEntries(Mapping[str, Blob]):
    """The entries of a shard as of the last micro-batch, each read when it is asked for."""

    def __init__(self, state: Any, spent: Counter[str] | None = None, cache: PieceCache = NO_CACHE) -> None:
        """`spent`: where the time of later reads is added to the state's, and taken off the merge's."""
        self._state, self._spent, self._cache = state, Counter[str]() if spent is None else spent, cache
        root = state.getValue((ROOT,))
        self._is_old = root is None
        self._sizes: dict[str, int]
        self._read: dict[str, bytes]
        if root is None:
            self._read = {entry[0]: bytes(blob[0]) for entry, blob in state.iterator()}
            self._sizes = {name: len(blob) for name, blob in self._read.items()}
        else:
            self._sizes, self._read = unpack_root(bytes(root[0]))
        self._in_root = {} if self._is_old else dict(self._read)

    def __getitem__(self, name: str) -> Blob:
        if name not in self._sizes:
            raise KeyError(name)
        if DIGEST in name and name not in self._in_root:
            return self._piece(name)
        if name not in self._read:
            self._read[name] = self._fetched(name)
        return self._read[name]

    def _piece(self, name: str) -> Blob:
        """Not kept: all pieces together may be larger than the worker's memory."""
        found = self._cache.read(name)
        if found is not None:
            return found
        content = self._read.get(name) or self._fetched(name)
        self._cache.put(name, content)
        return content

    def _fetched(self, name: str) -> bytes:
        with timed(self._spent, STATE_CALLS, within=MERGE):
            return bytes(self._state.getValue((name,))[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def size_of(self, name: str) -> int:
        """Bytes of an entry, which is not read."""
        return self._sizes[name]

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Write changed entries; None removes one."""
        kept = {name: blob for name, blob in self._in_root.items() if name not in changes}
        free = ROOT_BYTES - sum(len(blob) for name, blob in kept.items() if not is_header(name))
        for name, blob in changes.items():
            if is_header(name):
                kept |= {} if blob is None else {name: blob}
            elif blob is not None and self._is_small(name, blob, free):
                kept[name] = blob
                free -= len(blob)
            elif blob is not None or name not in self._in_root:
                self._write_one(name, blob)
        if self._is_old:
            for name in filter(is_header, self._sizes):
                self._state.removeKey((name,))
                kept |= {name: self._read[name]} if name not in changes else {}
        sizes = {name: size for name, size in self._sizes.items() if name not in changes}
        sizes |= {name: len(blob) for name, blob in changes.items() if blob is not None}
        self._state.updateValue((ROOT,), (pack_root(sizes, kept),))

    def _is_small(self, name: str, blob: bytes, free: int) -> bool:
        """Whether ROOT gets an entry. One that the state has elsewhere stays there."""
        return len(blob) <= min(SMALL_BYTES, free) and (name in self._in_root or name not in self._sizes)

    def _write_one(self, name: str, blob: bytes | None) -> None:
        if blob is None:
            self._state.removeKey((name,))
            self._cache.drop(name)
        else:
            self._state.updateValue((name,), (blob,))
            self._cache.put(name, blob)


class SpooledEntries(Mapping[str, Blob]):
    """All entries of a shard of a stopped query, as Spark reads them: pieces in a file, the others in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._small, self._pieces = file, dict[str, bytes](), dict[str, Part]()

    def add(self, name: str, content: Blob) -> None:
        """Take an entry of Spark's map state. All are added before one is read."""
        if name == ROOT:
            self._small |= unpack_root(bytes(content))[1]
        elif DIGEST in name:
            self._pieces[name] = Part(self._file.name, self._file.tell(), len(content))
            self._file.write(content)
            self._file.flush()
        else:
            self._small[name] = bytes(content)

    def __getitem__(self, name: str) -> Blob:
        return self._pieces[name].read() if name in self._pieces else self._small[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._small, *self._pieces])

    def __len__(self) -> int:
        return len(self._small) + len(self._pieces)

    def map(self) -> EntryMap:
        """As operators take them."""
        return EntryMap(self, self._size_of)

    def _size_of(self, name: str) -> int:
        return self._pieces[name].length if name in self._pieces else len(self._small[name])


@contextmanager
def spool() -> Iterator[SpooledEntries]:
    """For a worker: the file is on the local disk of its executor."""
    with tempfile.NamedTemporaryFile(dir=local_folder()) as file:
        yield SpooledEntries(file)


def is_header(name: str) -> bool:
    """Whether an entry is always part of ROOT."""
    return name.endswith("/")


def pack_root(sizes: Mapping[str, int], inside: Mapping[str, bytes]) -> bytes:
    """The entry ROOT for entries of these sizes, with those `inside`: all headers, and maybe others."""
    description = json.dumps({"sizes": sizes, "headers": list(inside)}, separators=(",", ":")).encode()
    return b"".join([len(description).to_bytes(_LENGTH, "little"), description, *inside.values()])


def unpack_root(data: bytes) -> tuple[dict[str, int], dict[str, bytes]]:
    """What `pack_root` was given."""
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    description = json.loads(data[_LENGTH:at])
    sizes, inside = description["sizes"], {}
    for name in description["headers"]:
        inside[name] = data[at : at + sizes[name]]
        at += sizes[name]
    return sizes, inside
