"""`HadoopStore`: a checkpoint in HDFS, or another file system of Hadoop that renames atomically."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

from windowpane.checkpoint.lease import SECONDS, StoreLease
from windowpane.checkpoint.store import unreadable, unwritable
from windowpane.errors import gist
from windowpane.remote.hadoop import HadoopAccess, HadoopFiles, hadoop_files

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
        with self._changing(name), self._draft(name, data, durable=True) as draft:
            try:
                self._hadoop.context.rename(draft, self._path(name), self._hadoop.keep)
            except self._error:
                if self._hadoop.files.exists(self._path(name)):
                    return False
                raise
            return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._changing(name), self._draft(name, data, durable=durable) as draft:
            self._hadoop.context.rename(draft, self._path(name), self._hadoop.overwrite)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        if known is None:
            return self.create(name, data)
        if self.read(name) != known:
            return False
        self.replace(name, data)
        return True

    def read(self, name: str) -> bytes | None:
        with self._reading(name):
            try:
                stream = self._hadoop.files.open(self._path(name))
            except self._error as refused:
                if "FileNotFoundException" in str(refused):
                    return None
                raise
            try:
                return bytes(self._hadoop.jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def exists(self, name: str) -> bool:
        with self._reading(name):
            return bool(self._hadoop.files.exists(self._path(name)))

    def names(self) -> list[str]:
        with self._reading(""):
            return sorted(name for name in self._listed("") if not _DRAFT.fullmatch(name))

    def move(self, name: str, to: str) -> None:
        with self._changing(name):
            if self._hadoop.files.exists(self._path(name)):
                self._hadoop.context.rename(self._path(name), self._path(to), self._hadoop.overwrite)

    def copy(self, name: str, to: str) -> None:
        with self._changing(to):
            files = self._hadoop.files
            if not files.exists(self._path(name)):
                return
            if files.getFileStatus(self._path(name)).isDirectory():
                for each in self._listed(name):
                    self.copy(f"{name}/{each}", f"{to}/{each}")
            else:
                copying = self._hadoop.jvm.org.apache.hadoop.fs.FileUtil
                copying.copy(files, self._path(name), files, self._path(to), False, True, files.getConf())

    def delete(self, name: str, *, durable: bool = True) -> None:
        with self._changing(name):
            self._hadoop.files.delete(self._path(name), False)

    def clear(self, name: str) -> None:
        with self._changing(name):
            self._hadoop.files.delete(self._path(name), True)

    def make_folder(self, name: str) -> None:
        with self._changing(name):
            self._hadoop.files.mkdirs(self._path(name))

    def sync(self, name: str) -> None:
        """What Spark has closed is on the disks of the file system."""

    def sweep(self) -> None:
        with self._changing(""):
            for name in filter(_DRAFT.fullmatch, self._listed("")):
                self._hadoop.files.delete(self._path(name), False)

    def lease(self, name: str) -> StoreLease:
        return StoreLease(self, f"{name}.lease", self._lease_seconds)

    @property
    def _hadoop(self) -> HadoopFiles:
        return hadoop_files("/".join(self._root.split("/")[:3]), self._access)

    @cached_property
    def _error(self) -> type[Exception]:
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415  # loaded when it is needed

        error: type[Exception] = Py4JJavaError
        return error

    def _path(self, name: str) -> Any:
        return self._hadoop.path(self.address(name))

    def _listed(self, name: str) -> list[str]:
        return self._hadoop.names(self.address(name))

    @contextlib.contextmanager
    def _draft(self, name: str, data: bytes, *, durable: bool) -> Iterator[Any]:
        folder, _, last = name.rpartition("/")
        draft = self._path(f"{folder}/.{last}.{uuid.uuid4().hex}.tmp" if folder else f".{last}.{uuid.uuid4().hex}.tmp")
        files = self._hadoop.files
        stream = files.create(draft, False)
        try:
            stream.write(bytearray(data))
            if durable:
                stream.hsync()
            stream.close()
            yield draft
        finally:
            with contextlib.suppress(self._error):
                files.delete(draft, False)

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._failures as failed:
            raise unwritable(self.address(name), gist(failed)) from failed

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._failures as failed:
            raise unreadable(self.address(name), gist(failed)) from failed

    @cached_property
    def _failures(self) -> tuple[type[BaseException], ...]:
        from py4j.protocol import Py4JError  # noqa: PLC0415

        return (Py4JError, OSError)
