"""Versions of static tables that are reread: each is a copy in the checkpoint, with the batch from which it is used.

A batch that is replayed reads the version that it has read before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from windowpane.checkpoint.records import FORMAT, encoded, read_object, typed
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

    def path(self, table: str, version: int) -> str:
        """Where Spark reads and writes the rows of a version."""
        return self._store.spark_path(_folder(table, version))

    def add(self, table: str, version: TableVersion) -> None:
        """Durable when this returns: from now on, batches from `from_batch` on read this version."""
        before = self.of(table)
        kept = [*before, version][-KEPT:]
        content = {"format": FORMAT, "versions": [asdict(each) for each in kept]}
        self._store.replace(f"{table}.json", encoded(content))
        for each in before[: max(len(before) + 1 - KEPT, 0)]:
            self._store.clear(_folder(table, each.version))


def _folder(table: str, version: int) -> str:
    return f"{table}-{version:06}"
