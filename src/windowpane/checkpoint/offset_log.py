"""Spark's own logs in a checkpoint: what it has planned and committed. No other module reads them.

`generations.py` copies them beside another state, `spark_files.py` into savepoints.

Spark writes a file `offsets/<batch>` before a micro-batch runs and `commits/<batch>` after it. File sources log their
files in `sources/<number>`. Each log file has a version, then lines of JSON; `-` stands for nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from windowpane.checkpoint.addresses import is_under, plain
from windowpane.checkpoint.records import read_object
from windowpane.checkpoint.store import Store, corrupt
from windowpane.errors import gist

GONE = "it is missing, although the checkpoint has state"
_VERSION = re.compile(r"v\d+")
_METADATA = "metadata"


@dataclass(frozen=True)
class PlannedFile:
    """A file of a micro-batch: its address, and its number in the log of its source."""

    path: str
    number: int


class OffsetLog:
    """Reads the logs of one query."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last_planned(self) -> int:
        """The last batch that Spark has planned, -1 if there is none."""
        return self._last("offsets")

    def last_committed(self) -> int:
        """The last batch that Spark has committed, -1 if there is none."""
        return self._last("commits")

    def run_id(self) -> str:
        """Spark's id of the query; the same after every restart."""
        found = read_object(self._store, _METADATA, {"id": str})
        if found is None:
            raise corrupt(self._store.address(_METADATA), GONE)
        return str(found["id"])

    def timestamp_us(self, batch_id: int) -> int:
        """When Spark planned a batch. It is recorded before the batch runs, so a replayed batch has the same one."""
        return int(self._required(f"offsets/{batch_id}")[0]["batchTimestampMs"]) * 1000

    def batch_files(self, batch_id: int) -> list[str]:
        """The addresses of a micro-batch's files, of all its sources."""
        until, after = self.file_offsets(batch_id), self.file_offsets(batch_id - 1)
        found = [self._logged(source, after.get(source, -1) + 1, last) for source, last in until.items()]
        return sorted({file.path for files in found for file in files})

    def read_files(self, batch_id: int, folder: str) -> set[str]:
        """Local paths, or addresses elsewhere, of the files in `folder` that batches up to this one have read."""
        logged = [self._logged_until(source, last) for source, last in self.file_offsets(batch_id).items()]
        inside = [file.path for files in logged for file in files if is_under(file.path, folder)]
        return {plain(path) for path in inside}

    def planned_batches(self) -> list[int]:
        """The batches whose offsets Spark keeps."""
        return sorted(int(name) for name in self._store.below("offsets").names() if name.isdigit())

    def offsets(self, batch_id: int) -> list[Any]:
        """How far a batch goes in each source, as Spark wrote it; None for a source that has not begun."""
        return self._required(f"offsets/{batch_id}")[1:]

    def repeated_files(self) -> list[str]:
        """Files that the log of a source has under more than one number."""
        found = []
        for source in self._store.below("sources").names():
            if source.isdigit():
                numbers: dict[str, set[int]] = {}
                for file in self._logged_until(int(source), 1 << 62):
                    numbers.setdefault(file.path, set()).add(file.number)
                found += [plain(path) for path, several in numbers.items() if len(several) > 1]
        return found

    def check(self) -> None:
        """StateError, with the name of the file, unless the logs agree with each other."""
        self.run_id()
        committed, planned = self.last_committed(), self.last_planned()
        if not committed <= planned <= committed + 1:
            beyond = self._store.address(f"offsets/{max(planned, committed)}")
            raise corrupt(beyond, f"Spark has committed batch {committed} and planned batch {planned}")
        if committed >= 0:
            self._required(f"commits/{committed}")
        for batch_id in {committed, planned} - {-1}:
            self._check_sources(self._required(f"offsets/{batch_id}"))

    def check_empty(self) -> None:
        """StateError if the metadata of a query that has not run yet is damaged."""
        read_object(self._store, _METADATA, {"id": str})

    def _check_sources(self, lines: list[Any]) -> None:
        """A file source's own log must reach as far as the batch that was planned from it."""
        for source, number in _file_numbers(lines).items():
            name = f"sources/{source}/{number}"
            whole = f"{name}.compact"
            if number >= 0:
                self._required(whole if self._store.exists(whole) else name)

    def _last(self, log: str) -> int:
        return max((int(name) for name in self._store.below(log).names() if name.isdigit()), default=-1)

    def file_offsets(self, batch_id: int) -> dict[int, int]:
        """How far a batch goes in the log of each file source, by the number of the source."""
        return _file_numbers(self._lines(f"offsets/{batch_id}"))

    def _logged(self, source: int, first: int, last: int) -> list[PlannedFile]:
        """Files of a range of a source's log. Older ones may be in a later file that Spark has compacted."""
        log = f"sources/{source}"
        numbers = range(first, last + 1)
        own = [self._entries(f"{log}/{each}") or self._entries(f"{log}/{each}.compact") for each in numbers]
        if not all(own):
            names = self._store.below(log).names()
            own = [self._entries(f"{log}/{name}") for name in names if name[0].isdigit()]
        return [file for files in own for file in files if first <= file.number <= last]

    def _logged_until(self, source: int, last: int) -> list[PlannedFile]:
        """All files up to a number of a source's log. A file that Spark has compacted has those before it too."""
        log = f"sources/{source}"
        names = [name for name in self._store.below(log).names() if name[0].isdigit()]
        first = max((int(name.partition(".")[0]) for name in names if name.endswith(".compact")), default=0)
        found = [self._entries(f"{log}/{name}") for name in names if int(name.partition(".")[0]) >= first]
        return [file for files in found for file in files if file.number <= last]

    def _entries(self, name: str) -> list[PlannedFile]:
        try:
            return [PlannedFile(str(each["path"]), int(each["batchId"])) for each in self._lines(name)]
        except (ValueError, KeyError, TypeError) as broken:
            raise corrupt(self._store.address(name), f"not a Spark log ({gist(broken)})") from broken

    def _required(self, name: str) -> list[Any]:
        lines = self._lines(name)
        if not lines:
            raise corrupt(self._store.address(name), GONE)
        return lines

    def _lines(self, name: str) -> list[Any]:
        """The lines of a log file after its version; empty if the file is not there."""
        data = self._store.read(name)
        if data is None:
            return []
        try:
            version, *lines = data.decode("utf-8").splitlines() or [""]
            parsed = [None if line == "-" else json.loads(line) for line in lines]
        except (ValueError, RecursionError) as broken:
            raise corrupt(self._store.address(name), f"not a Spark log ({broken})") from broken
        if not _VERSION.fullmatch(version):
            raise corrupt(self._store.address(name), "not a Spark log")
        return parsed


def _file_numbers(lines: list[Any]) -> dict[int, int]:
    """The numbers of file sources in an offset log, whose lines are metadata and then one offset per source."""
    offsets = enumerate(lines[1:])
    return {
        source: int(each["logOffset"]) for source, each in offsets if isinstance(each, dict) and "logOffset" in each
    }
