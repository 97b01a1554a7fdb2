"""Records of input files that could not be read: a batch is read without them, with an error row for each."""

from __future__ import annotations

from collections.abc import Mapping

from windowpane.checkpoint.records import FORMAT, change_record, read_object
from windowpane.checkpoint.store import Store


class UnreadableFiles:
    """Addresses of files by batch, each with the reason."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(self, batch_id: int, files: Mapping[str, str]) -> None:
        """From now on, every attempt at this batch skips what these files do not give."""
        known = self._store.read(_name(batch_id))
        change_record(self._store, _name(batch_id), {"format": FORMAT, "files": {**self.of(batch_id), **files}}, known)

    def take_over(self, batch_id: int) -> None:
        """To be called by a new holder of the lease, for a batch that the holder before it may have run.

        From now on, all attempts skip the same files, unless this holder records others.
        """
        self.record(batch_id, {})

    def of(self, batch_id: int) -> dict[str, str]:
        """The unreadable files of a batch."""
        found = read_object(self._store, _name(batch_id), {"files": dict}, "remove it: the batch is examined again")
        return {str(path): str(reason) for path, reason in found["files"].items()} if found else {}


def _name(batch_id: int) -> str:
    return f"{batch_id:012}.json"
