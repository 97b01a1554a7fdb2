"""Savepoints: what a micro-batch left in a pipeline's checkpoint, kept under a name.

`savepoints/<name>/savepoint.json` describes a savepoint, and lists its files with their sizes. They are in the folder
`<fence>` beside it, named as in the checkpoint. The description is there from the beginning, as a draft, and becomes
whole by an exchange: a process that has lost its lease meanwhile finds its draft gone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from windowpane.checkpoint.lease import lease_lost
from windowpane.checkpoint.records import FORMAT, encoded, read_object, typed
from windowpane.checkpoint.store import CORRUPT, Store, corrupt
from windowpane.errors import StateError, nearest

FOLDER = "savepoints"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FILE = "savepoint.json"
_HINT = "use another savepoint, or take a new one: windowpane savepoints lists them"


@dataclass(frozen=True)
class Moment:
    """Up to where a savepoint has one of the pipeline's jobs. `batch_id` -1: before the first micro-batch."""

    batch_id: int
    clock_us: int | None = None
    """When the micro-batch was planned."""
    watermark_us: int | None = None
    rows: int = 0
    """Rows read so far."""


@dataclass(frozen=True)
class Savepoint:
    """`moments` by the folder of the job, which for a job of one transform is the transform's name."""

    name: str
    taken_us: int
    fence: int
    root: str
    """The checkpoint as Spark's logs name it."""
    moments: dict[str, Moment]
    homes: list[str]
    """Folders of the checkpoint that the savepoint has a copy of."""
    files: dict[str, int]
    """Sizes by name."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of small files that the rest depends on."""

    @property
    def size(self) -> int:
        """In bytes, of which a folder may share most with the checkpoint."""
        return sum(self.files.values())


_SAVEPOINT = TypeAdapter(Savepoint)


class Savepoints:
    """The savepoints in a pipeline's checkpoint."""

    def __init__(self, store: Store) -> None:
        self._store, self._root = store.below(FOLDER), store

    def all(self) -> list[Savepoint]:
        """Those that are whole, oldest first."""
        found = [savepoint for name in self._store.names() if (savepoint := self._read(name))]
        return sorted(found, key=lambda each: each.taken_us)

    def find(self, name: str) -> Savepoint:
        """StateError if there is no whole savepoint of this name."""
        check_name(name)
        found = self._read(name)
        if found is None:
            there = nearest(name, [each.name for each in self.all()])
            raise StateError(
                "NO_SAVEPOINT",
                f"there is no savepoint `{name}` in {self._root.address()}",
                f"savepoints: {there}; of another checkpoint: FOLDER_OR_ADDRESS/{name}",
            )
        return found

    def files(self, savepoint: Savepoint) -> Store:
        """The copy of the checkpoint."""
        return self._store.below(_folder(savepoint))

    def check(self, savepoint: Savepoint) -> Store:
        """The copy, if it is as it was taken: StateError with the name of a file that is missing or has changed."""
        store = self.files(savepoint)
        there = store.sizes("")
        for name, size in savepoint.files.items():
            if name not in there:
                raise corrupt(store.address(name), "it is missing, although the savepoint has it", _HINT)
            if there[name] != size:
                raise corrupt(store.address(name), f"it has {there[name]} bytes instead of {size}", _HINT)
        for name, digest in savepoint.digests.items():
            if digest_of(store.read(name) or b"") != digest:
                raise corrupt(store.address(name), "its content has changed since the savepoint was taken", _HINT)
        return store

    def begin(self, name: str) -> bytes:
        """Take the name; StateError if it is taken. Gives the draft, which `complete` needs."""
        check_name(name)
        draft = encoded({"format": FORMAT, "name": name, "fence": self._root.fence, "complete": False})
        if not self._store.create(f"{name}/{_FILE}", draft):
            raise StateError(
                "SAVEPOINT_EXISTS",
                f"{self._root.address()} already has a savepoint `{name}`",
                f"choose another name, or remove it: windowpane savepoint --delete {name}",
            )
        return draft

    def complete(self, savepoint: Savepoint, draft: bytes) -> None:
        """From now on it is there. StateError `LEASE_LOST` if another process has taken over the checkpoint."""
        self._store.sync(savepoint.name)
        name = f"{savepoint.name}/{_FILE}"
        content = {"format": FORMAT, **asdict(savepoint), "complete": True}
        if not self._store.exchange(name, encoded(content, indent=None), draft):
            raise lease_lost(self._store.address(name))

    def abandon(self, name: str) -> None:
        """Remove a draft that cannot be completed."""
        self._remove(name)

    def delete(self, name: str) -> None:
        """Remove a savepoint, damaged or not. Needs no lease: a running pipeline does not use it."""
        with _damage_ignored():
            self.find(name)
        self._remove(name)

    def sweep(self) -> None:
        """Remove what was cut off before it was whole. Only the holder of the lease may call it."""
        for name in self._store.names():
            with _damage_ignored():  # it is reported when the savepoint is used
                content = read_object(self._store, f"{name}/{_FILE}", {})
                if content is None or not content.get("complete"):
                    self._remove(name)

    def _remove(self, name: str) -> None:
        self._store.delete(f"{name}/{_FILE}")  # first: without it there is no savepoint
        self._store.clear(name)

    def _read(self, name: str) -> Savepoint | None:
        file = f"{name}/{_FILE}"
        content = read_object(self._store, file, {"complete": bool}, _HINT)
        if content is None or not content.pop("complete"):
            return None
        content.pop("format", None)
        return typed(_SAVEPOINT, content, self._store.address(file), _HINT)


@contextmanager
def _damage_ignored() -> Iterator[None]:
    try:
        yield
    except StateError as failed:
        if failed.code != CORRUPT:
            raise


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise StateError(
            "BAD_NAME",
            f"`{name}` cannot be the name of a savepoint",
            "a name has letters, digits, `.`, `_` and `-`, begins with a letter or digit, and is at most 100 long",
        )


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _folder(savepoint: Savepoint) -> str:
    return f"{savepoint.name}/{savepoint.fence}"


def folder_for(name: str, fence: int) -> str:
    """Where the files of a savepoint are in the checkpoint. What a process that has lost its lease writes late is not
    in the folder of another one.
    """
    return f"{FOLDER}/{name}/{fence}"
