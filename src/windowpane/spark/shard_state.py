"""The state of a shard in files, and made from that of another number of shards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa

from windowpane.core.blob import Blob
from windowpane.core.operators.taking_over import take_over
from windowpane.core.rescaling import Owned, Tally
from windowpane.core.state import EntryMap
from windowpane.spark.entries import ROOT, unpack_root
from windowpane.spark.job_stages import JobStages, entries_of


class EntryFiles(EntryMap):
    """Entries of one shard as files of a folder, written at once and mapped when read: memory holds none of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.sizes = {unquote(path.name): path.stat().st_size for path in folder.iterdir()}
        """Bytes of each entry."""

    def names(self) -> Collection[str]:
        return list(self.sizes)

    def read(self, name: str) -> Blob:
        if not self.sizes[name]:
            return b""
        with pa.memory_map(str(self._path(name))) as file:
            return file.read_buffer()

    def write(self, name: str, data: bytes) -> None:
        self._path(name).write_bytes(data)
        self.sizes[name] = len(data)

    def remove(self, name: str) -> None:
        if self.sizes.pop(name, None) is not None:
            self._path(name).unlink()

    def size_of(self, name: str) -> int:
        return self.sizes[name]

    def write_stored(self, name: str, data: bytes) -> None:
        """Write what Spark's map state has under a name."""
        if name != ROOT:
            self.write(name, data)
            return
        for inside, content in unpack_root(data)[1].items():
            self.write(inside, content)

    def _path(self, name: str) -> Path:
        return self._folder / quote(name, safe="")


def make_shard(job: JobStages, step: int, number: int, stored: Sequence[EntryMap], entries: EntryMap) -> Tally:
    """Put into `entries` the state of shard `number` of a step. `stored`: the entries of all shards of that step.

    `job` is that of the new number of shards.
    """
    whole = Tally()
    for tag, stages in job.at(step).items():
        owned = Owned(number, stages.shards, aliases=dict(stages.aliases))
        before = [(stages.graph(step), entries_of(each, tag)) for each in stored]
        take_over(stages.graph(step), before, owned, entries_of(entries, tag))
        whole.seen += owned.tally.seen
        whole.taken += owned.tally.taken
    return whole
