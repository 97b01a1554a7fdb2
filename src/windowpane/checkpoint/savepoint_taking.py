"""Takes a savepoint: copies what the last committed micro-batch of each job has left, and the batch planned after it.

A copy is what a process that dies at that moment leaves, without what a restart would remove. So whoever starts from it
goes on as after a crash. Files never change in place, so a folder shares them (`Store.adopt`).
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from windowpane.checkpoint.generations import WORK, is_spark_folder
from windowpane.checkpoint.job_folders import JobFolder, job_folders
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.outbox_files import COUNT_FILE
from windowpane.checkpoint.overflow_folder import NAME as OVERFLOW
from windowpane.checkpoint.records import encoded, read_object
from windowpane.checkpoint.savepoints import Moment, Savepoint, Savepoints, digest_of, folder_for
from windowpane.checkpoint.spark_files import SparkFiles
from windowpane.checkpoint.store import Store, corrupt, unreadable
from windowpane.errors import StateError

Standstill = Callable[[str], AbstractContextManager[object]]
"""For the folder of a job: no micro-batch of it runs within the context."""
RUNS_FILE = "runs.json"
_LEFT_OUT = (OVERFLOW, WORK, RUNS_FILE, "finished.json", "batch-size.json")
_BATCH = re.compile(r"(\d{12})\b")
_AT_ONCE, _TRIES = 16, 5


class _VanishedError(Exception):
    """A file that was listed is gone: Spark has compacted a log, or a sink has taken side rows."""


def take_savepoint(store: Store, name: str, standstill: Standstill = lambda _: nullcontext()) -> Savepoint:
    """Only the holder of the lease may call it, with the store for it. StateError if there is nothing to keep."""
    jobs = jobs_to_keep(store)
    kept = Savepoints(store)
    kept.sweep()
    draft = kept.begin(name)
    try:
        savepoint = _taken(store, name, jobs, standstill)
        kept.complete(savepoint, draft)
    except Exception:
        with contextlib.suppress(StateError):  # what cannot be removed now is swept later
            kept.abandon(name)
        raise
    return savepoint


def _taken(store: Store, name: str, jobs: Sequence[JobFolder], standstill: Standstill) -> Savepoint:
    target, moments, files = store.below(folder_for(name, store.fence)), dict[str, Moment](), _Files()
    for job in jobs:
        with standstill(job.name):
            moments[job.name], copied = _copied(store, target, job)
        files.add(copied)
    return Savepoint(
        name, int(time.time() * 1e6), store.fence, store.spark_path(), moments,
        [home for job in jobs for home in job.homes], files.sizes, files.digests,
    )  # fmt: skip


def jobs_to_keep(store: Store) -> list[JobFolder]:
    """The jobs of a checkpoint; StateError if there is none, or one has ended gracefully."""
    jobs = job_folders(store)
    if not jobs:
        hint = "windowpane run makes one when it first runs"
        raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {store.address()}", hint)
    for job in jobs:
        if store.below(job.name).exists("finished.json"):
            raise StateError(
                "CHECKPOINT_FINISHED",
                f"{store.address(job.name)} is finished: it has ended gracefully, and there is nothing to go on with",
                "take a savepoint while the pipeline runs, or after windowpane stop",
            )
    return jobs


@dataclass
class _Files:
    """What was copied: sizes by name, and digests of what was read."""

    sizes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def add(self, other: _Files) -> None:
        self.sizes |= other.sizes
        self.digests |= other.digests


def _copied(store: Store, target: Store, job: JobFolder) -> tuple[Moment, _Files]:
    for left in reversed(range(_TRIES)):
        try:
            return _JobCopy(store, target, job).copied()
        except _VanishedError as gone:
            if not left:
                raise unreadable(store.address(str(gone)), "it is listed, and cannot be copied") from gone
    raise AssertionError


class _JobCopy:
    """Copies the files of one job, as of its last committed batch when this object was made."""

    def __init__(self, store: Store, target: Store, job: JobFolder) -> None:
        self._store, self._target, self._job = store, target, job
        self._spark = f"{job.name}/{job.spark}"
        self._log = OffsetLog(store.below(self._spark))
        self._committed = self._log.last_committed()
        self._planned = max(self._committed, self._log.last_planned())
        self._entry = self._ledger_entry()
        self._files = _Files()

    def copied(self) -> tuple[Moment, _Files]:
        if self._planned >= 0:
            self._log.check()
        links = dict[str, int]()
        for home in self._job.homes:
            sizes = self._store.sizes(home)
            if home == self._job.name:
                inside = f"{self._job.spark}/"
                spark = {name.removeprefix(inside): size for name, size in sizes.items() if name.startswith(inside)}
                links |= {f"{self._spark}/{name}": spark[name] for name in self._needed(spark)}
            own = {name: size for name, size in sizes.items() if not is_spark_folder(name.partition("/")[0])}
            links |= {f"{home}/{name}": own[name] for name in self._own(home, own)}
        self._adopt(links)
        return self._moment(), self._files

    def _needed(self, sizes: dict[str, int]) -> list[str]:
        return SparkFiles(self._store.below(self._spark), sizes, self._committed, self._planned).needed()

    def _own(self, home: str, sizes: dict[str, int]) -> Iterator[str]:
        """Files of windowpane to be shared. Small records are written instead."""
        settled = {name.rpartition("/")[0]: self._count(home, name) for name in sizes if name.endswith(COUNT_FILE)}
        read = self._read_again(home) if any(name.startswith("reinject/") for name in sizes) else set()
        for name in sizes:
            folder, _, last = name.rpartition("/")
            if name.partition("/")[0] in _LEFT_OUT or name.startswith("undelivered-") or last == COUNT_FILE:
                continue
            batch = _BATCH.match(last)
            if batch is None and not folder:
                self._write(f"{home}/{name}", self._store.read(f"{home}/{name}"))
            elif batch is None:
                yield name
            elif folder == "damaged":
                if self._committed < int(batch[1]) <= self._planned:
                    yield name
            elif _settled(folder, settled) < int(batch[1]) <= self._committed and name not in read:
                yield name

    def _read_again(self, home: str) -> set[str]:
        """Files of the reinjection queue that committed batches have read: they are not read a second time."""
        if self._committed < 0 or home != self._job.name:
            return set()
        root = f"{self._store.below(home).spark_path('reinject')}/"
        return {f"reinject/{path.removeprefix(root)}" for path in self._log.read_files(self._committed, root)}

    def _count(self, home: str, name: str) -> int:
        """Keep what has left an outbox, as of the committed batch. Gives the last batch of which this is so."""
        content = read_object(self._store, f"{home}/{name}", {"rows": int, "batch_id": int})
        if content is None:
            raise _VanishedError(f"{home}/{name}")
        if content["batch_id"] > self._committed:
            content = self._without_last(content, home, name.split("/")[-2])
        self._write(f"{home}/{name}", encoded(content))
        return int(content["batch_id"])

    def _without_last(self, content: dict[str, Any], home: str, sink: str) -> dict[str, Any]:
        """The count before the batch that was delivered and is not committed."""
        rows, lost = content["rows"], content.get("lost", 0)
        if content.get("last_rows", -1) >= 0:
            rows, lost = rows - content["last_rows"], lost - content.get("last_lost", 0)
        else:
            entry = self._entry.get("transforms", {}).get(home, self._entry)
            rows = entry.get("outbox", {}).get(sink, rows + lost) - lost
        return {"rows": rows, "batch_id": self._committed, "lost": lost}

    def _ledger_entry(self) -> dict[str, Any]:
        """The entry of the committed batch; empty before the first one."""
        if self._committed < 0:
            return {}
        name = f"{self._job.name}/ledger/{self._committed:012}.json"
        entry = read_object(self._store, name, {"batch_id": int})
        if entry is None:
            reason = f"it is missing, although Spark has committed batch {self._committed}"
            raise corrupt(self._store.address(name), reason)
        return entry

    def _moment(self) -> Moment:
        if self._committed < 0:
            return Moment(-1)
        several = self._entry.get("transforms")
        entries = list(several.values()) if isinstance(several, dict) else [self._entry]
        watermarks = [each["watermark_us"] for each in entries if each.get("watermark_us") is not None]
        rows = max(each.get("totals", {}).get("in_", 0) for each in entries)
        return Moment(self._committed, self._log.timestamp_us(self._committed), min(watermarks, default=None), rows)

    def _write(self, name: str, data: bytes | None) -> None:
        if data is None:
            raise _VanishedError(name)
        self._target.replace(name, data, durable=False)
        self._files.sizes[name], self._files.digests[name] = len(data), digest_of(data)

    def _adopt(self, links: dict[str, int]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            adopted = pool.map(lambda name: self._target.adopt(self._store, name, name), links)
            for name, found in zip(links, adopted, strict=True):
                if not found:
                    raise _VanishedError(name)
        self._files.sizes |= links


def _settled(folder: str, settled: dict[str, int]) -> int:
    """The last batch that has left the outbox which a folder belongs to; -1 if it belongs to none."""
    return next((batch for outbox, batch in settled.items() if f"{folder}/".startswith(f"{outbox}/")), -1)
