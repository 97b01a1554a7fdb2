"""Compares the files that Spark is about to read in a micro-batch with those that its source logs name.

Spark silently skips files that have been deleted, reads the content of a folder that has replaced a file, and reads
the other files again for each name that contains a glob character.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from windowpane.checkpoint.addresses import is_under
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.config import Stream
from windowpane.connectors.sources import EXACTLY, Reading
from windowpane.connectors.unreadable_files import GONE, stream_of


@dataclass(frozen=True)
class Findings:
    """Files that are gone, and corrections for reading the others: EXACTLY if Spark's list of files is right."""

    gone: tuple[str, ...] = ()
    reading: Reading = EXACTLY


@dataclass(frozen=True)
class BatchIndex:
    """Checks the micro-batches of one query."""

    input_files: Callable[[], list[str]]
    """The files in Spark's plan of the micro-batch that runs, spelled as in the source logs."""
    log: OffsetLog
    streams: Mapping[str, Stream]
    base: Path
    queue: str
    """What the addresses of windowpane's own files begin with: rows that are read again."""

    def check(self, batch_id: int, noted: Mapping[str, str]) -> Findings:
        """Called in foreachBatch. `noted`: findings of an earlier attempt; a file that was gone then stays out."""
        named = self._named(batch_id)
        if not named:
            return Findings()
        indexed = Counter(path for path in self.input_files() if not self._is_queued(path))
        gone = tuple(path for path in named if path not in indexed or noted.get(path) == GONE)
        wanted = Counter(set(named) - set(gone))
        if indexed == wanted:
            return Findings(gone)
        doubled = {self._stream_name(path) for path, times in indexed.items() if times > 1} - {None}
        without = tuple(sorted(path for path in indexed if path not in wanted))
        return Findings(gone, Reading(frozenset(name for name in doubled if name is not None), without))

    def _named(self, batch_id: int) -> list[str]:
        return [path for path in self.log.batch_files(batch_id) if not self._is_queued(path)]

    def _is_queued(self, path: str) -> bool:
        return is_under(path, self.queue)

    def _stream_name(self, path: str) -> str | None:
        return stream_of(path, self.streams, self.base)
