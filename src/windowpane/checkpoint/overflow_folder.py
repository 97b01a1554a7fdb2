"""The folder for large results of one micro-batch, on their way from the shards to the sinks."""

from __future__ import annotations

from windowpane.checkpoint.store import Store
from windowpane.remote.objects import is_object_store

NAME = "results"


class OverflowFolder:
    """Shards write files here. Only the driver removes them, and nothing reads those of an earlier attempt."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self) -> str | None:
        """The path or address of the folder, emptied; None if workers cannot write files to such a store."""
        path = self._store.spark_path(NAME)
        if not path.startswith("/"):
            self.clear()
            return path if is_object_store(path) else None
        self._store.make_folder(NAME)
        self.clear()
        return path

    def clear(self) -> None:
        """Remove the files. No task runs."""
        folder = self._store.below(NAME)
        for name in folder.names():
            folder.delete(name)
