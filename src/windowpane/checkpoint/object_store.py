"""`ObjectStore`: a checkpoint in a bucket of S3, Google Cloud Storage or Azure.

A put is whole and durable when it returns, and a put under a condition decides between processes. Folders are only
prefixes of names. Spark leaves empty objects there that stand for folders; they may remain after `clear`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from windowpane.checkpoint.lease import SECONDS
from windowpane.checkpoint.remote_store import RemoteStore
from windowpane.checkpoint.store import Store, adopt_by_reading
from windowpane.remote.access import Access
from windowpane.remote.objects import client, key_of, obstore_module

_FOLDER = ".folder"
"""The name of an empty object that makes a folder exist. Spark ignores names that begin with a dot."""


class ObjectStore(RemoteStore[Access]):
    """A store whose objects are those below the address `root`."""

    def __init__(self, root: str, access: Access, lease_seconds: float = SECONDS) -> None:
        super().__init__(root, access, lease_seconds)
        self._api: Any = obstore_module()

    def create(self, name: str, data: bytes) -> bool:
        with self._changing(name):
            if self._is_folder(name):
                return False
            try:
                self._api.put(self._client, self._key(name), data, mode="create")
            except self._api.exceptions.AlreadyExistsError:
                return False
            return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._changing(name):
            self._api.put(self._client, self._key(name), data)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        if known is None:
            return self.create(name, data)
        with self._changing(name):
            try:
                found = self._api.get(self._client, self._key(name))
                if bytes(found.bytes()) != known:
                    return False
                mode = {name: found.meta[name] for name in ("e_tag", "version") if found.meta[name] is not None}
                self._api.put(self._client, self._key(name), data, mode=mode)
            except (FileNotFoundError, self._api.exceptions.PreconditionError):
                return False
            return True

    def read(self, name: str) -> bytes | None:
        with self._reading(name):
            try:
                return bytes(self._api.get(self._client, self._key(name)).bytes())
            except FileNotFoundError:
                return None

    def exists(self, name: str) -> bool:
        with self._reading(name):
            return self._is_object(name) or self._is_folder(name)

    def names(self) -> list[str]:
        with self._reading(""):
            found = self._api.list_with_delimiter(self._client, top := self._key(""))
        # Hadoop marks a folder by an empty object of its name, which is listed in the folder itself.
        inside = [*found["common_prefixes"], *(each["path"] for each in found["objects"] if each["path"] != top)]
        return sorted({name for path in inside if (name := path.rpartition("/")[2]) != _FOLDER})

    def move(self, name: str, to: str) -> None:
        with self._changing(name), contextlib.suppress(FileNotFoundError):
            self._api.copy(self._client, self._key(name), self._key(to))
            self._api.delete(self._client, self._key(name))

    def copy(self, name: str, to: str) -> None:
        start = self._key(name)
        with self._changing(to):
            for path in [start, *self._all_below(name)]:
                # Listed, but not there: an empty object of Spark that stands for a folder.
                with contextlib.suppress(FileNotFoundError):
                    self._api.copy(self._client, path, self._key(to) + path.removeprefix(start))

    def adopt(self, source: Store, name: str, to: str) -> bool:
        if not isinstance(source, ObjectStore) or source._client is not self._client:  # noqa: SLF001  # a store of this class
            return adopt_by_reading(self, source, name, to)
        with self._changing(to):
            try:
                self._api.copy(self._client, source._key(name), self._key(to))  # noqa: SLF001  # a store of this class
            except FileNotFoundError:
                return False
        return True

    def sizes(self, name: str) -> dict[str, int]:
        top = f"{self._key(name)}/".lstrip("/")
        with self._reading(name):
            listed = [each for chunk in self._api.list(self._client, top) for each in chunk]
            found = {each["path"].removeprefix(top): int(each["size"]) for each in listed}
            return {each: size for each, size in found.items() if self._is_content(f"{name}/{each}".lstrip("/"), size)}

    def delete(self, name: str, *, durable: bool = True) -> None:
        with self._changing(name), contextlib.suppress(FileNotFoundError):
            self._api.delete(self._client, self._key(name))

    def clear(self, name: str) -> None:
        self.delete(name)
        with self._changing(name), contextlib.suppress(FileNotFoundError):
            below = list(self._all_below(name))
            if below:
                self._api.delete(self._client, below)

    def make_folder(self, name: str) -> None:
        self.replace(f"{name}/{_FOLDER}", b"")

    def sync(self, name: str) -> None:
        """What is written is durable."""

    def sweep(self) -> None:
        """Unfinished writes are not visible."""

    @property
    def _failures(self) -> tuple[type[Exception], ...]:
        return (self._api.exceptions.BaseError, OSError)

    @property
    def _client(self) -> Any:
        return client(self._root, self._access)

    def _key(self, name: str) -> str:
        return key_of(self.address(name))

    def _is_object(self, name: str) -> bool:
        try:
            self._api.head(self._client, self._key(name))
        except FileNotFoundError:
            return False
        return True

    def _is_content(self, name: str, size: int) -> bool:
        """Whether a listed object is there: empty ones of Spark that stand for folders are listed by other names."""
        return not name.endswith(_FOLDER) and (size > 0 or self._is_object(name))

    def _is_folder(self, name: str) -> bool:
        found = self._api.list_with_delimiter(self._client, self._key(name))
        return bool(found["common_prefixes"] or found["objects"])

    def _all_below(self, name: str) -> Iterator[str]:
        for chunk in self._api.list(self._client, self._key(name)):
            yield from (each["path"] for each in chunk)
