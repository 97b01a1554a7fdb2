"""The queue of side rows that are read again: a folder of JSON lines per stream, which the query reads as a source.

A micro-batch writes one file per stream before Spark commits it, and exactly one later micro-batch reads that file.
Until then its rows count as buffered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from windowpane.checkpoint.lease import lease_lost
from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.store import Store, corrupt
from windowpane.core import columns as c

_LINE = re.compile(rb'\{.*,"' + re.escape(c.REINJECTIONS).encode() + rb'":\d+\}')
_EMPTIED = b"\n"
"""A file without rows: readers of JSON pass over empty lines."""


class _File(NamedTuple):
    batch_id: int
    name: str


class ReinjectionQueue:
    """Files `<stream>/<batch>.json`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self, stream: str) -> str:
        """The path or URI of a stream's folder for Spark's file source. Creates the folder."""
        self._store.make_folder(stream)
        return self._store.spark_path(stream)

    def path(self) -> str:
        """The path or URI that the addresses of all files begin with in Spark's logs; ends with a slash."""
        return f"{self._store.spark_path()}/"

    def put(self, batch_id: int, lines: Mapping[str, Sequence[str]]) -> None:
        """Write the lines of a batch by stream. Durable when this returns."""
        for stream, texts in lines.items():
            data = "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")
            self._store.replace(f"{stream}/{_name(batch_id)}", data)

    def forget_after(self, batch_id: int) -> None:
        """Empty files of batches after this one, which were never committed and will be replayed.

        A file is emptied on the condition that it is as it was. Removing it has no condition: a process that was away
        meanwhile could remove what the one after it has written.
        """
        for file in self._files():
            known = self._store.read(file.name) if file.batch_id > batch_id else None
            if known is not None and not self._store.exchange(file.name, _EMPTIED, known):
                raise lease_lost(self._store.address(file.name))

    def check(self, ledger: Ledger, log: OffsetLog, committed: int) -> None:
        """StateError unless the queue holds as many rows as the entry of the last committed batch says.

        Spark does not notice a file that vanished before it was listed: its rows would stay buffered for ever.
        """
        entry = ledger.read(committed) if committed >= 0 else None
        wanted = entry.reinjecting if entry else 0
        files = [file for file in self._files() if file.batch_id <= committed]
        if not wanted and not files:
            return
        read = log.read_files(committed, self.path())
        there = sum(self._rows(file) for file in files if self._store.spark_path(file.name) not in read)
        if there != wanted:
            missing = self._missing(ledger, committed, read)
            reason = f"{there} rows wait to be read again, and the ledger has {wanted}"
            raise corrupt(missing or self._store.address(), f"it is gone: {reason}" if missing else reason)

    def sweep(self) -> None:
        """Remove unfinished writes of killed processes."""
        for stream in self._store.names():
            self._store.below(stream).sweep()

    def _files(self) -> Iterator[_File]:
        """All files; StateError for one that windowpane has not written, because Spark would read it."""
        for stream in self._store.names():
            inside = self._store.below(stream)
            for stem in (name.removesuffix(".json") for name in inside.names() if name.endswith(".json")):
                if not stem.isdigit():
                    hint = "move it out of the checkpoint"
                    raise corrupt(inside.address(f"{stem}.json"), "it holds no rows to be read again", hint)
                yield _File(int(stem), f"{stream}/{stem}.json")

    def _rows(self, file: _File) -> int:
        """How many rows a file has, each a line as it was written."""
        data = self._store.read(file.name) or b""
        *lines, rest = data.split(b"\n")
        if data == _EMPTIED:
            return 0
        if rest or not lines or not all(_LINE.fullmatch(line) for line in lines):
            raise corrupt(self._store.address(file.name), "it holds no rows to be read again")
        return len(lines)

    def _missing(self, ledger: Ledger, committed: int, read: set[str]) -> str | None:
        """The file of a batch that has put rows into the queue, if it is neither there nor read."""
        done = {path.rpartition("/")[2] for path in read}
        streams = self._store.names()
        for batch_id in ledger.batch_ids():
            name = _name(batch_id)
            entry = ledger.read(batch_id) if batch_id <= committed and name not in done else None
            if entry and entry.reinjected and not any(self._store.exists(f"{each}/{name}") for each in streams):
                return self._store.address(f"{streams[0]}/{name}" if len(streams) == 1 else name)
        return None


def _name(batch_id: int) -> str:
    return f"{batch_id:012}.json"
