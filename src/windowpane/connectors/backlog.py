"""Whether a micro-batch left something behind because of its limit, from what Spark has planned for it and the next.

Files are weighed here where the file system is local. Elsewhere it counts as a backlog that a batch has files which
were there when the batch before it was planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from windowpane.checkpoint import offset_log
from windowpane.config import Stream
from windowpane.connectors.limits import FILE_BYTES, KAFKA_RECORDS, Limits, is_movable

_FULL = 0.9
"""Spark spreads a limit over Kafka's partitions, and rounds."""


@dataclass(frozen=True)
class FileShare:
    """The files of one source in a micro-batch. `bytes` is None where they cannot be weighed."""

    count: int
    bytes: int | None
    largest: int
    oldest_ms: int
    planned_ms: int

    def size(self, then: Share | None, limits: Limits) -> float | None:
        """How often the usual limit fits into this share; None unless more was there, and much the same comes `then`.

        Spark takes files as long as they fit, and at least one.
        """
        if not isinstance(then, FileShare):
            return None
        if self.bytes is None or then.bytes is None:
            waited = then.oldest_ms < self.planned_ms and 2 * then.count >= self.count
            return limits.bytes / FILE_BYTES if waited else None
        full = self.bytes + then.largest > limits.bytes and 2 * then.bytes >= self.bytes
        return self.bytes / FILE_BYTES if full else None


@dataclass(frozen=True)
class RecordShare:
    """The records of one Kafka source in a micro-batch."""

    records: int

    def size(self, then: Share | None, limits: Limits) -> float | None:
        """As for files."""
        if not isinstance(then, RecordShare):
            return None
        full = limits.records is not None and self.records >= _FULL * limits.records
        return self.records / KAFKA_RECORDS if full and 2 * then.records >= self.records else None


Share: TypeAlias = FileShare | RecordShare
Shares: TypeAlias = Mapping[int, Share]
"""By the number of their source."""


@dataclass(frozen=True)
class Backlog:
    """Looks at the micro-batches of one query. Streams whose limit the user has set do not count."""

    checkpoint: Path
    """Spark's own."""
    streams: Mapping[str, Stream]
    base: Path
    queue: Path
    """Rows that are read again: all of them at once, without a limit."""
    max_rows: int | None

    def shares(self, batch_id: int) -> Shares:
        """What a batch that is planned takes from each source. To be asked before it runs: it may move its files."""
        return self._of_files(batch_id) | self._of_kafka(batch_id)

    def _of_files(self, batch_id: int) -> dict[int, Share]:
        found: dict[int, Share] = {}
        when = offset_log.planned_ms(self.checkpoint, batch_id)
        fixed = [*self._fixed_folders(), f"{self.queue.absolute()}/"]
        for source, files in offset_log.planned_files(self.checkpoint, batch_id).items():
            if files and not any(offset_log.is_under(files[0].path, folder) for folder in fixed):
                known = [size for file in files if (size := _bytes(file.path)) is not None]
                whole = sum(known) if len(known) == len(files) else None
                oldest = min(file.modified_ms for file in files)
                found[source] = FileShare(len(files), whole, max(known, default=0), oldest, when)
        return found

    def _of_kafka(self, batch_id: int) -> dict[int, Share]:
        if not any(stream.source_format.is_messages and self._moves(stream) for stream in self.streams.values()):
            return {}
        records = offset_log.planned_records(self.checkpoint, batch_id)
        known, fixed = offset_log.offsets(self.checkpoint, batch_id), self._fixed_topics()
        return {
            source: RecordShare(count)
            for source, count in records.items()
            if not offset_log.topics(known[source]) & fixed
        }

    def _fixed_folders(self) -> list[str]:
        fixed = [each for each in self.streams.values() if each.source_format.is_files and not self._moves(each)]
        return [offset_log.folder_of(stream.path, self.base) for stream in fixed if stream.path is not None]

    def _fixed_topics(self) -> set[str]:
        fixed = [each for each in self.streams.values() if each.source_format.is_messages and not self._moves(each)]
        return {topic.strip() for each in fixed for topic in each.spark_options.get("subscribe", "").split(",")} - {""}

    def _moves(self, stream: Stream) -> bool:
        return is_movable(stream, self.max_rows)


def left_behind(shares: Shares, then: Shares, limits: Limits) -> float | None:
    """How large a batch was whose limit left something for the next, as a multiple of the usual limits; else None."""
    sizes = [share.size(then.get(source), limits) for source, share in shares.items()]
    return max((size for size in sizes if size is not None), default=None)


def _bytes(address: str) -> int | None:
    path = offset_log.local_path(address)
    try:
        return None if path is None else Path(path).stat().st_size
    except OSError:  # gone, or not to be seen from here: an executor's own folder, for one
        return None
