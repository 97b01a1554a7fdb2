"""The folder for large results of one micro-batch, on their way from the shards to the sinks."""

from __future__ import annotations

from windowpane.checkpoint.store import Store

NAME = "results"


class OverflowFolder:
    """Shards write files here. Only the driver removes them, and nothing reads those of an earlier attempt."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self) -> str | None:
        """The path of the folder, which is made and emptied; None if workers cannot write files to such a store."""
        path = self._store.spark_path(NAME)
        if not path.startswith("/"):
            return None
        self._store.make_folder(NAME)
        self.clear()
        return path

    def clear(self) -> None:
        """Remove the files. No task runs."""
        folder = self._store.below(NAME)
        for name in folder.names():
            folder.delete(name)
