"""Which files of Spark's checkpoint a micro-batch needs: its logs, and the state that the next batch loads.

Spark numbers state by the batch that reads it. A partition's folder has snapshots (`12.zip` of RocksDB, `12.snapshot`
of the store on HDFS) and what each version has changed since the one before (`13.changelog`, `13.delta`). A zip names
the files that it shares with other snapshots, in the folders `SSTs` and `logs`.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.store import Store, corrupt
from windowpane.errors import gist

_VERSION = re.compile(r"(\d+)(_[^.]+)?\.(zip|snapshot|changelog|delta)")
_NUMBER = re.compile(r"\d+")
_SHARED = {"sst": "SSTs", "log": "logs"}
_ABOUT = ("_metadata", "_stateSchema")
"""Folders of an operator that describe its state. Files begin with the batch from which they hold."""


class _Version(NamedTuple):
    number: int
    name: str
    is_snapshot: bool
    is_unique: bool
    """The name has an id: attempts at a batch leave files of their own, and Spark's commit log names those that count.
    """


class SharedFile(NamedTuple):
    """A file that a snapshot of RocksDB refers to."""

    name: str
    size: int


@dataclass(frozen=True)
class SparkFiles:
    """Over a listing of Spark's checkpoint. `committed`: the batch; `planned`: that one, or the one after it."""

    store: Store
    sizes: Mapping[str, int]
    committed: int
    planned: int

    def needed(self) -> list[str]:
        """Names of files, with Hadoop's checksums. StateError `CHECKPOINT_CORRUPT` if the state lacks a file."""
        names = [*self._logs(), *self._sources(), *self._state()]
        return [*names, *(each for name in names if (each := checksum_of(name)) in self.sizes)]

    def _logs(self) -> Iterator[str]:
        first = max(self.committed - 1, 0)  # Spark compares the last batch with the one before
        planned = [f"offsets/{batch_id}" for batch_id in range(first, self.planned + 1)]
        committed = [f"commits/{batch_id}" for batch_id in range(first, self.committed + 1)]
        return (name for name in ("metadata", *planned, *committed) if name in self.sizes)

    def _sources(self) -> Iterator[str]:
        """Logs of sources. A compacted log of files contains all before it."""
        offsets = OffsetLog(self.store).file_offsets(self.committed) if self.committed >= 0 else {}
        for source, names in self._below("sources").items():
            whole = [_number(name) for name in names if name.endswith(".compact")]
            first = min(max(whole), offsets.get(int(source), max(whole))) if whole else 0
            yield from (f"sources/{source}/{name}" for name in names if _number(name) >= first)

    def _below(self, folder: str) -> dict[str, list[str]]:
        """Numbered files by the folder they are in."""
        found = defaultdict(list)
        for path in self.sizes:
            top, _, rest = path.partition("/")
            inside, _, name = rest.partition("/")
            if top == folder and inside.isdigit() and name[:1].isdigit():
                found[inside].append(name)
        return found

    def _state(self) -> Iterator[str]:
        folders = defaultdict[str, list[_Version]](list)
        for path in self.sizes:
            folder, _, name = path.rpartition("/")
            if not path.startswith("state/"):
                continue
            if found := _VERSION.fullmatch(name):
                is_snapshot = found[3] in ("zip", "snapshot")
                folders[folder].append(_Version(int(found[1]), name, is_snapshot, is_unique=found[2] is not None))
            elif set(folder.split("/")) & set(_ABOUT) and not name.startswith(".") and _number(name) <= self.planned:
                yield path
        for folder, versions in folders.items():
            yield from self._versions(folder, versions)

    def _versions(self, folder: str, versions: list[_Version]) -> Iterator[str]:
        """The last snapshot and the changes since, with the files that the snapshot shares with others."""
        wanted = self.committed + 1
        before = [each for each in versions if each.number <= wanted]
        if any(each.is_unique for each in before):
            yield from (f"{folder}/{each.name}" for each in before)
            yield from (path for path in self.sizes if path.startswith(_shared_folders(folder)) and _is_data(path))
            return
        snapshot = max((each for each in before if each.is_snapshot), default=None)
        first = snapshot.number if snapshot else 0
        changes = {each.number: each.name for each in before if not each.is_snapshot and each.number > first}
        for number in range(first + 1, wanted + 1):
            if number not in changes:
                missing = self.store.address(f"{folder}/{number}.changelog")
                raise corrupt(missing, f"it is missing, although the state after batch {self.committed} needs it")
        yield from (f"{folder}/{name}" for name in changes.values())
        if snapshot is not None:
            yield f"{folder}/{snapshot.name}"
            yield from self._shared(folder, snapshot.name)

    def _shared(self, folder: str, snapshot: str) -> Iterator[str]:
        for shared in shared_files(self.store, f"{folder}/{snapshot}") if snapshot.endswith(".zip") else ():
            name = f"{folder}/{_SHARED[shared.name.rpartition('.')[2]]}/{shared.name}"
            if self.sizes.get(name) != shared.size:
                there = f"it has {self.sizes[name]} bytes" if name in self.sizes else "it is missing"
                wanted = f"the snapshot {snapshot} needs it with {shared.size} bytes"
                raise corrupt(self.store.address(name), f"{there}, and {wanted}")
            yield name


def shared_files(store: Store, snapshot: str) -> list[SharedFile]:
    """The files that a zip of RocksDB refers to."""
    try:
        with zipfile.ZipFile(io.BytesIO(store.read(snapshot) or b"")) as packed:
            described = json.loads(packed.read("metadata").partition(b"\n")[2])
        listed = [*described["sstFiles"], *(described.get("logFiles") or ())]
        names = [(each.get("dfsSstFileName") or each["dfsLogFileName"], each["sizeBytes"]) for each in listed]
        return [SharedFile(str(name), int(size)) for name, size in names]
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as broken:
        raise corrupt(store.address(snapshot), f"not a snapshot of RocksDB ({gist(broken)})") from broken


def checksum_of(name: str) -> str:
    """The file in which Hadoop keeps the checksum of a local file."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.crc"


def _shared_folders(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{each}/" for each in _SHARED.values())


def _is_data(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(".")


def _number(name: str) -> int:
    found = _NUMBER.match(name)
    return int(found[0]) if found else -1
