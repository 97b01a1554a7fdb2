"""Input files as workers open them: local ones, and objects of a store."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pyarrow as pa

from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.objects import client, is_object_store, key_of, obstore_module

_AT_LEAST = 1024 * 1024
"""Bytes of one request: a request takes as long as a megabyte does."""
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


@dataclass(frozen=True)
class InputFile:
    """A path, or the address of an object. Picklable."""

    path: str
    access: Access = NO_ACCESS

    def random_access(self) -> pa.NativeFile:
        """The file, opened for readers that need parts of it. Local files are mapped into memory."""
        if is_object_store(self.path):
            return pa.PythonFile(_ObjectReader(self.path, self.access), mode="r")
        return pa.memory_map(self.path)

    def stream(self) -> pa.NativeFile:
        """The file from its beginning, decompressed by its extension."""
        if not is_object_store(self.path):
            return pa.input_stream(self.path, compression="detect")
        codec = next((codec for ending, codec in _COMPRESSED.items() if self.path.endswith(ending)), None)
        return pa.input_stream(self.random_access(), compression=codec)


class _ObjectReader(io.RawIOBase):
    """An object, read by ranges. FileNotFoundError if it is gone; errors of the network are obstore's own."""

    def __init__(self, address: str, access: Access) -> None:
        super().__init__()
        self._api, self._client, self._key = obstore_module(), client(address, access), key_of(address)
        self._size = int(self._api.head(self._client, self._key)["size"])
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
        self._held = bytes(self._api.get_range(self._client, self._key, start=self._at, end=end))
