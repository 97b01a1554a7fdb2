"""`HadoopStore`: a checkpoint in HDFS, or another file system of Hadoop that renames atomically."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from typing import Self

from windowpane.checkpoint.lease import SECONDS, StoreLease
from windowpane.checkpoint.store import unreadable, unwritable
from windowpane.remote.hadoop import HadoopAccess, HadoopError, HadoopFiles, hadoop_files

_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
"""Names of unfinished writes."""


class HadoopStore:
    """A store whose objects are files below the address `root`. They get their names by renaming."""

    def __init__(self, root: str, access: HadoopAccess, lease_seconds: float = SECONDS) -> None:
        self._root, self._access, self._lease_seconds = root.rstrip("/"), access, lease_seconds

    def address(self, name: str = "") -> str:
        return f"{self._root}/{name}" if name else self._root

    def spark_path(self, name: str = "") -> str:
        return self.address(name)

    def below(self, name: str) -> Self:
        return type(self)(self.address(name), self._access, self._lease_seconds)

    def create(self, name: str, data: bytes) -> bool:
        with self._changing(name):
            return self._files.write(self.address(name), self._draft(name), data, durable=True, replace=False)

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._changing(name):
            self._files.write(self.address(name), self._draft(name), data, durable=durable, replace=True)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        if known is None:
            return self.create(name, data)
        if self.read(name) != known:
            return False
        self.replace(name, data)
        return True

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

    def lease(self, name: str) -> StoreLease:
        return StoreLease(self, f"{name}.lease", self._lease_seconds)

    @property
    def _files(self) -> HadoopFiles:
        return hadoop_files("/".join(self._root.split("/")[:3]), self._access)

    def _draft(self, name: str) -> str:
        folder, _, last = self.address(name).rpartition("/")
        return f"{folder}/.{last}.{uuid.uuid4().hex}.tmp"

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            yield
        except (HadoopError, OSError) as failed:
            raise unwritable(self.address(name), str(failed)) from failed

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (HadoopError, OSError) as failed:
            raise unreadable(self.address(name), str(failed)) from failed
