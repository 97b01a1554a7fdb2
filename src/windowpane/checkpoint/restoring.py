"""Puts the files of a savepoint into a checkpoint, which then is a run of its own.

Three things are written anew instead of copied: the identity of the run, so that sinks take its batches for others than
those of the original; and the addresses that Spark's logs have of files in the checkpoint itself.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from windowpane.checkpoint.addresses import is_under
from windowpane.checkpoint.job_folders import job_folders
from windowpane.checkpoint.records import FORMAT, encoded, read_object
from windowpane.checkpoint.savepoints import Savepoint, Savepoints
from windowpane.checkpoint.spark_files import checksum_of
from windowpane.checkpoint.store import Store, corrupt
from windowpane.errors import StateError

MARK = "restoring.json"
"""Is there until all files are."""
_SPARK = r"(?P<home>.+)/spark(-\d+)?"
_IDENTITY = re.compile(rf"{_SPARK}/metadata")
_DESCRIBED = re.compile(rf"{_SPARK}/state/\d+/_metadata/v2/\d+")
_SOURCE_LOG = re.compile(rf"{_SPARK}/sources/\d+/\d+(\.compact)?")
_PLAN = re.compile(r"[^/]+/plan\.json")
_KEPT_BY_JAVA = "/:@!$&'()*+,;=-._~"
_AT_ONCE = 16


@dataclass(frozen=True)
class Origin:
    """A savepoint, and the checkpoint that has it."""

    store: Store
    savepoint: Savepoint

    @property
    def address(self) -> str:
        return f"{self.store.address()}/{self.savepoint.name}"


def check_empty(store: Store, origin: str) -> None:
    """StateError unless there is no checkpoint, or only what an earlier attempt at the same savepoint has left."""
    begun = read_object(store, MARK, {"savepoint": str})
    if begun is not None and begun["savepoint"] == origin:
        return
    check_restored(store)
    if job_folders(store):
        raise StateError(
            "CHECKPOINT_NOT_EMPTY",
            f"{store.address()} already has a checkpoint, so nothing can start there from a savepoint",
            "to go on with it, leave out --from; to go back, windowpane reset --to NAME; "
            "to have both, give another folder: --checkpoint",
        )


def check_restored(store: Store) -> None:
    """StateError if a restore was cut short: some files would be missing."""
    begun = read_object(store, MARK, {"savepoint": str})
    if begun is not None:
        raise StateError(
            "RESTORE_CUT_SHORT",
            f"the checkpoint {store.address()} is being made from the savepoint {begun['savepoint']}, or was cut short",
            f"give the same command again: windowpane {begun.get('command', 'run --from')} …",
        )


def restore(
    origin: Origin,
    store: Store,
    *,
    marked: Mapping[str, Any] | None = None,
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Replace what a checkpoint has by a savepoint. Only the holder of its lease may call it.

    A restore that is cut short leaves a mark, and has to be repeated. `marked`: more to write into the mark; `more`:
    objects beside those of the savepoint.
    """
    savepoint = origin.savepoint
    files = Savepoints(origin.store).check(savepoint)
    mark(store, origin, marked or {})
    remove_jobs(store, savepoint.homes)
    _Restoring(savepoint, files, store).carry_out()
    for name, data in (more or {}).items():
        store.replace(name, data)
    for home in savepoint.homes:
        store.sync(home)
    store.delete(MARK)


def remove_jobs(store: Store, homes: Iterable[str] = ()) -> None:
    """Remove the folders of all jobs, and `homes`. Side rows that a graceful end has written out stay."""
    for home in sorted({*homes, *(home for job in job_folders(store) for home in job.homes)}):
        inside = store.below(home)
        for name in inside.names():
            if not name.startswith("undelivered-"):
                inside.clear(name)


def mark(store: Store, origin: Origin, more: Mapping[str, Any]) -> None:
    """From now on, nothing starts here until the restore is done."""
    content = {"format": FORMAT, "savepoint": origin.address, "homes": origin.savepoint.homes, **more}
    store.replace(MARK, encoded(content))


def forget_restore(store: Store) -> None:
    """Remove what a restore that was cut short has left."""
    begun = read_object(store, MARK, {"homes": list})
    if begun is not None:
        remove_jobs(store, begun["homes"])
        store.delete(MARK)


@dataclass(frozen=True)
class _Restoring:
    savepoint: Savepoint
    files: Store
    store: Store

    def carry_out(self) -> None:
        runs = {home: str(uuid.uuid4()) for home in self.savepoint.moments}
        rewritten = {name: data for name in self.savepoint.files if (data := self._rewritten(name, runs)) is not None}
        left_out = {*rewritten, *map(checksum_of, rewritten)}
        names = [name for name in self.savepoint.files if name not in left_out]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for name, found in zip(names, pool.map(self._adopt, names), strict=True):
                if not found:
                    raise corrupt(self.files.address(name), "it is missing, although the savepoint has it")
        for name, data in rewritten.items():
            self.store.replace(name, data)

    def _adopt(self, name: str) -> bool:
        return self.store.adopt(self.files, name, name)

    def _rewritten(self, name: str, runs: Mapping[str, str]) -> bytes | None:
        """The new content of a file; None if it is copied as it is."""
        if found := _IDENTITY.fullmatch(name):
            return encoded({"id": runs[found["home"]]}, indent=None)
        if _PLAN.fullmatch(name):
            # Files without the run in their names are those of the original.
            return encoded(self._parsed(name, self._read(name)) | {"unnamed_until": -1})
        if found := _DESCRIBED.fullmatch(name):
            return self._described(name)
        if found := _SOURCE_LOG.fullmatch(name):
            return self._with_own_queue(name, found["home"])
        return None

    def _described(self, name: str) -> bytes:
        """What Spark knows of an operator's state names the files of the schema by their addresses."""
        version, _, text = self._read(name).partition("\n")
        described, here = self._parsed(name, text), name.partition("/_metadata/")[0]
        for each in described.get("stateStoreInfo", ()):
            paths = each.get("stateSchemaFilePaths", ())
            inside = [f"{here}/_stateSchema/{path.partition('/_stateSchema/')[2]}" for path in paths]
            each["stateSchemaFilePaths"] = [self._as_path(path) for path in inside]
        return f"{version}\n{json.dumps(described, separators=(',', ':'))}".encode()

    def _with_own_queue(self, name: str, home: str) -> bytes | None:
        """A log of files in which those of the reinjection queue are the files of this checkpoint's queue."""
        queue, text = f"{self.savepoint.root}/{home}/reinject/", self._read(name)
        if "/reinject/" not in text:
            return None
        lines = [self._with_own_file(name, line, queue, home) for line in text.split("\n")]
        return "\n".join(lines).encode()

    def _with_own_file(self, name: str, line: str, queue: str, home: str) -> str:
        if not line.startswith("{"):
            return line
        entry = self._parsed(name, line)
        if not is_under(str(entry.get("path")), queue):
            return line
        inside = str(entry["path"]).rpartition("/reinject/")[2]
        return json.dumps(entry | {"path": f"{self._as_uri(f'{home}/reinject')}/{inside}"}, separators=(",", ":"))

    def _as_path(self, name: str) -> str:
        path = self.store.spark_path(name)
        return f"file:{path}" if path.startswith("/") else path

    def _as_uri(self, name: str) -> str:
        """As Java escapes it: letters of all alphabets stay."""
        path = self.store.spark_path(name)
        escaped = "".join(quote(char, safe=_KEPT_BY_JAVA) if char.isascii() else char for char in path)
        return f"file://{escaped}" if path.startswith("/") else escaped

    def _read(self, name: str) -> str:
        return (self.files.read(name) or b"").decode()

    def _parsed(self, name: str, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as broken:
            raise corrupt(self.files.address(name), f"no JSON ({broken})") from broken
        if not isinstance(found, dict):
            raise corrupt(self.files.address(name), "no JSON object")
        return found
