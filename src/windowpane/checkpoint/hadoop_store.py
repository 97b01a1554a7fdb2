"""`HadoopStore`: a checkpoint in HDFS, or another file system of Hadoop that renames atomically."""

from __future__ import annotations

import re
import uuid

from windowpane.checkpoint.remote_store import RemoteStore
from windowpane.checkpoint.store import Store, adopt_by_reading, exchange_by_comparison
from windowpane.remote.hadoop import HadoopAccess, HadoopError, HadoopFiles, hadoop_files

_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
"""Names of unfinished writes."""


class HadoopStore(RemoteStore[HadoopAccess]):
    """A store whose objects are files below the address `root`. They get their names by renaming."""

    def create(self, name: str, data: bytes) -> bool:
        with self._changing(name):
            return self._files.write(self.address(name), self._draft(name), data, durable=True, replace=False)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._changing(name):
            self._files.write(self.address(name), self._draft(name), data, durable=durable, replace=True)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        return exchange_by_comparison(self, name, data, known)

    def read(self, name: str) -> bytes | None:
        with self._reading(name):
            return self._files.read(self.address(name))

    def exists(self, name: str) -> bool:
        with self._reading(name):
            return self._files.exists(self.address(name))

    def names(self) -> list[str]:
        with self._reading(""):
            return sorted(name for name in self._files.names(self._root) if not _DRAFT.fullmatch(name))

    def move(self, name: str, to: str) -> None:
        with self._changing(name):
            self._files.move(self.address(name), self.address(to))

    def copy(self, name: str, to: str) -> None:
        with self._changing(to):
            self._files.copy(self.address(name), self.address(to))

    def adopt(self, source: Store, name: str, to: str) -> bool:
        if not isinstance(source, HadoopStore) or source._files is not self._files:  # noqa: SLF001  # a store of this class
            return adopt_by_reading(self, source, name, to)
        with self._changing(to):
            return self._files.copy(source.address(name), self.address(to))

    def sizes(self, name: str) -> dict[str, int]:
        with self._reading(name):
            found = self._files.sizes(self.address(name))
        return {each: size for each, size in found.items() if not _DRAFT.fullmatch(each.rpartition("/")[2])}

    def delete(self, name: str, *, durable: bool = True) -> None:
        with self._changing(name):
            self._files.delete(self.address(name), below=False)

    def clear(self, name: str) -> None:
        with self._changing(name):
            self._files.delete(self.address(name), below=True)

    def make_folder(self, name: str) -> None:
        with self._changing(name):
            self._files.make_folder(self.address(name))

    def sync(self, name: str) -> None:
        """What Spark has closed is on the disks of the file system."""

    def sweep(self) -> None:
        with self._changing(""):
            for name in filter(_DRAFT.fullmatch, self._files.names(self._root)):
                self._files.delete(self.address(name), below=False)

    @property
    def _failures(self) -> tuple[type[Exception], ...]:
        return (HadoopError, OSError)

    @property
    def _files(self) -> HadoopFiles:
        return hadoop_files("/".join(self._root.split("/")[:3]), self._access)

    def _draft(self, name: str) -> str:
        folder, _, last = self.address(name).rpartition("/")
        return f"{folder}/.{last}.{uuid.uuid4().hex}.tmp"
