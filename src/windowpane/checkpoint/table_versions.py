"""Versions of static tables that are reread: each is a copy in the checkpoint, with the batch from which it is used.

A batch that is replayed reads the version that it has read before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from windowpane.checkpoint.records import FORMAT, change_record, read_object, take_over, typed
from windowpane.checkpoint.store import Store

KEPT = 2
"""Versions that are kept: the one in use, and the one before. Batches that are committed are never replayed."""


@dataclass(frozen=True)
class TableVersion:
    """`schema` is Spark's, as JSON: a copy without rows has no file to read it from."""

    version: int
    from_batch: int
    taken_us: int
    schema: str
    fence: int = 0
    """The number of the process that has taken the copy: what it still writes there late is not in a later copy."""


_VERSIONS = TypeAdapter(list[TableVersion])


class TableVersions:
    """The versions of each table by name, oldest first."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, table: str) -> list[TableVersion]:
        found = read_object(self._store, f"{table}.json", {"versions": list})
        return typed(_VERSIONS, found["versions"], self._store.address(f"{table}.json")) if found else []

    def at(self, table: str, batch_id: int) -> TableVersion | None:
        """The version that a batch reads."""
        return next((each for each in reversed(self.of(table)) if each.from_batch <= batch_id), None)

    @property
    def fence(self) -> int:
        """The number of the process that takes versions here."""
        return self._store.fence

    def path(self, table: str, version: int, fence: int) -> str:
        """Where Spark reads and writes the rows of a version."""
        return self._store.spark_path(_folder(table, version, fence))

    def add(self, table: str, version: TableVersion) -> None:
        """Durable when this returns: from now on, batches from `from_batch` on read this version."""
        known, before = self._store.read(f"{table}.json"), self.of(table)
        kept = [*before, version][-KEPT:]
        content = {"format": FORMAT, "versions": [asdict(each) for each in kept]}
        change_record(self._store, f"{table}.json", content, known)
        for each in before[: max(len(before) + 1 - KEPT, 0)]:
            self._store.clear(_folder(table, each.version, each.fence))

    def take_over(self) -> None:
        """To be called by a new holder of the lease: from now on, the holder before it adds no version."""
        for name in self._store.names():
            if name.endswith(".json"):
                take_over(self._store, name)


def _folder(table: str, version: int, fence: int) -> str:
    return f"{table}-{version:06}-{fence}" if fence else f"{table}-{version:06}"
