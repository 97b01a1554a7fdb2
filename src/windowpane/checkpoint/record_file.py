"""A record in a store that one process takes on and only the holder of the lease changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import TypeAdapter

from windowpane.checkpoint.records import FORMAT, change_record, encoded, read_object, typed
from windowpane.checkpoint.run_lock import in_use
from windowpane.checkpoint.store import Store

R = TypeVar("R")


class RecordFile(Generic[R]):
    """The record called `name`, which stands for a value of the dataclass `kind`."""

    name: ClassVar[str]
    kind: ClassVar[TypeAdapter[Any]]

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> R | None:
        """None for a new checkpoint."""
        content = read_object(self._store, self.name, {"format": int})
        return None if content is None else typed(self.kind, content, self.address())

    def create(self, record: R) -> None:
        """StateError if another process has just done so."""
        if not self._store.create(self.name, encoded(self._content(record))):
            raise in_use(self._store.address())

    def write(self, record: R) -> None:
        """StateError `LEASE_LOST` if another process has just done so."""
        change_record(self._store, self.name, self._content(record), self._store.read(self.name))

    def exists(self) -> bool:
        return self._store.exists(self.name)

    def address(self) -> str:
        return self._store.address(self.name)

    def _content(self, record: R) -> dict[str, object]:
        return {"format": FORMAT, **asdict(cast("Any", record)), "fence": self._store.fence}
