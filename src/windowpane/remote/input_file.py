"""Input files as workers open them: local ones, objects of a store, and files of HDFS."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.hdfs import is_hdfs, open_hdfs
from windowpane.remote.objects import client, is_object_store, key_of, obstore_module

_AT_LEAST = 1024 * 1024
"""Bytes of one request: a request takes as long as a megabyte does."""
_BLOCK = 64 * 1024
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


@dataclass(frozen=True)
class InputFile:
    """A path, or the address of an object or a file of HDFS. Picklable."""

    path: str
    access: Access = NO_ACCESS
    start: int = 0
    end: int | None = None
    """A part of the file: the lines, or the row groups, that begin in this range of bytes. None: up to the end."""

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end is None

    def random_access(self) -> pa.NativeFile:
        """The file, opened for readers that need parts of it. Local files are mapped into memory."""
        if is_object_store(self.path):
            return pa.PythonFile(_RangeReader(_Object(self.path, self.access)), mode="r")
        if is_hdfs(self.path):
            return pa.PythonFile(_RangeReader(_HdfsFile(self.path, self.access)), mode="r")
        return pa.memory_map(self.path)

    def stream(self) -> pa.NativeFile:
        """The file from its beginning, or the lines of a part of it, decompressed by its extension.

        A compressed file cannot be divided: its first part is the whole file, and the others are empty.
        """
        if not self.is_whole and not self.path.endswith(tuple(_COMPRESSED)):
            return self._lines()
        if self.start:
            return pa.BufferReader(b"")
        if not is_remote(self.path):
            return pa.input_stream(self.path, compression="detect")
        codec = next((codec for ending, codec in _COMPRESSED.items() if self.path.endswith(ending)), None)
        return pa.input_stream(self.random_access(), compression=codec)

    def _lines(self) -> pa.NativeFile:
        file = self.random_access()
        begin = _line_start(file, self.start)
        end = _line_start(file, file.size() if self.end is None else self.end)
        file.seek(begin)
        return pa.BufferReader(file.read_buffer(max(end - begin, 0)))


def _line_start(file: pa.NativeFile, at: int) -> int:
    """Where the first line begins at `at` or behind it; the end of the file if there is none."""
    size, place = int(file.size()), at - 1
    while 0 <= place < size:
        file.seek(place)
        block: bytes = file.read(_BLOCK)
        found: int = min((each for sign in (b"\n", b"\r") if (each := block.find(sign)) >= 0), default=-1)
        if found >= 0:
            behind = place + found + 1
            file.seek(behind)
            pair = block[found : found + 1] == b"\r" and file.read(1) == b"\n"
            return behind + pair
        place += len(block)
    return 0 if at <= 0 else size


def is_remote(path: str) -> bool:
    """Whether workers open it over the network."""
    return is_object_store(path) or is_hdfs(path)


class _Ranges(Protocol):
    """A file on another machine. FileNotFoundError if it is gone; errors of the network are the client's own."""

    size: int

    def read(self, start: int, end: int) -> bytes: ...


class _Object:
    """An object of a store."""

    def __init__(self, address: str, access: Access) -> None:
        self._api, self._client, self._key = obstore_module(), client(address, access), key_of(address)
        self.size = int(self._api.head(self._client, self._key)["size"])

    def read(self, start: int, end: int) -> bytes:
        return bytes(self._api.get_range(self._client, self._key, start=start, end=end))


class _HdfsFile:
    """A file of HDFS."""

    def __init__(self, address: str, access: Access) -> None:
        self._file = open_hdfs(address, access)
        self.size = len(self._file)

    def read(self, start: int, end: int) -> bytes:
        return self._file.read_range(start, end - start)


class _RangeReader(io.RawIOBase):
    """Reads a remote file, a megabyte or more at a time."""

    def __init__(self, source: _Ranges) -> None:
        super().__init__()
        self._source, self._size = source, source.size
        self._at, self._start, self._held = 0, 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        wanted = max(0, min(self._size - self._at, size if size >= 0 else self._size))
        if not wanted:
            return b""
        if not self._start <= self._at or self._at + wanted > self._start + len(self._held):
            self._fetch(wanted)
        found = self._held[self._at - self._start :][:wanted]
        self._at += len(found)
        return found

    def _fetch(self, wanted: int) -> None:
        end = min(self._size, self._at + max(wanted, _AT_LEAST))
        self._start, self._held = self._at, b""
        self._held = self._source.read(self._at, end)
