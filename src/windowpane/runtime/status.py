"""The status of a running pipeline: collected from its transforms and written for other processes to read."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.records import FORMAT
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.store import Store

REFRESH_SECONDS = 2.0
RATE_SECONDS = 10.0
"""Rows per second are averaged over this time."""

State: TypeAlias = Literal["starting", "running", "draining", "stopped", "finished", "failed"]


_ENDS = {
    "draining": "the pipeline processes the available input, then emits every open window",
    "stopped": "the pipeline stopped; open windows stay in the checkpoint",
    "finished": "the pipeline ended gracefully: every open window was emitted",
}


class Keeper(Protocol):
    """What a board tells of events."""

    def note(self, kind: str, text: str) -> None: ...

    def save(self, *, last: bool = False) -> None: ...

    def close(self) -> None: ...


class Board:
    """Gathers the last micro-batch of each transform and writes the status file. Called from several threads."""

    def __init__(
        self,
        store: Store,
        file: str | None,
        clock: Callable[[], float] = time.monotonic,
        recent: Keeper | None = None,
    ) -> None:
        """`recent`: keeps events and rows for the live page."""
        self.recent = recent
        self._file, self._clock = StatusFile(store), clock
        self._lock = threading.Lock()
        self._written = 0.0
        self._recent: dict[str, deque[tuple[float, int]]] = {}
        self.state: State = "starting"
        self.error: dict[str, object] | None = None
        self.entries: dict[str, Entry] = {}
        self._more: dict[str, Callable[[], dict[str, Any]]] = {}
        self._batch_done: Callable[[str, float], None] = lambda _transform, _seconds: None
        self._about: dict[str, Any] = {"format": FORMAT, "file": file, "pid": os.getpid(), "started_us": _now_us()}

    def begin(self, transform: str, entry: Entry | None, more: Callable[[], dict[str, Any]] = dict[str, Any]) -> None:
        """A transform starts, after the batch of `entry` if it has run before. `more`: further parts of its status."""
        self._recent[transform], self._more[transform] = deque([(self._clock(), 0)]), more
        if entry is not None:
            self.entries[transform] = entry

    def note(self, transform: str, entry: Entry) -> None:
        """A micro-batch is done."""
        with self._lock:
            self.entries[transform] = entry
            self._recent.setdefault(transform, deque()).append((self._clock(), entry.accounting["in_"]))
        self._batch_done(transform, entry.seconds)
        self.write()

    def become(self, state: State, error: dict[str, object] | None = None) -> None:
        self.state, self.error = state, error
        if self.recent is not None and state != "running":
            self.recent.note(state, _told(state, error))
            self.recent.save(last=True)
        self.write()

    def refresh(self) -> None:
        """Write the status again after a while, so that readers can see that the process is alive."""
        if self._clock() - self._written >= REFRESH_SECONDS:
            self.write()

    def rows_per_second(self, transform: str) -> float:
        """Over the last seconds, from the end of one batch to now."""
        with self._lock:
            recent = self._recent.get(transform)
            if not recent:
                return 0.0
            now = self._clock()
            while len(recent) > 1 and now - recent[1][0] > RATE_SECONDS:
                recent.popleft()
            rows = sum(count for when, count in list(recent)[1:])
            return rows / max(now - recent[0][0], 1e-3)

    def document(self) -> dict[str, Any]:
        transforms = {name: self._transform(name, entry) for name, entry in list(self.entries.items())}
        own = {"state": self.state, "error": self.error, "updated_us": _now_us(), "transforms": transforms}
        return self._about | own

    def _transform(self, name: str, entry: Entry) -> dict[str, Any]:
        more = self._more[name]() if name in self._more else {}
        return describe_entry(entry) | more | {"rows_per_second": round(self.rows_per_second(name), 1)}

    def serve_metrics(self, url: str, batch_done: Callable[[str, float], None]) -> None:
        """The metrics are served at `url`; `batch_done` is called for every micro-batch."""
        self._about["metrics"], self._batch_done = url, batch_done

    def write(self) -> None:
        with self._lock:
            self._written = self._clock()
        document = self.document()
        with self._lock:
            self._file.write(document)


def _told(state: State, error: dict[str, object] | None) -> str:
    return _ENDS.get(state, state) if error is None else str(error.get("message", state))


def read_status(store: Store) -> dict[str, Any] | None:
    """The status of a pipeline that may run elsewhere, and whether it runs; None if nothing has ever run here."""
    document = StatusFile(store).read()
    return None if document is None else {"running": RunLock(store).held(), "checkpoint": store.address()} | document


def describe_entry(entry: Entry) -> dict[str, Any]:
    """A micro-batch for people and scripts."""
    lag = None if entry.watermark_us is None else _now_us() - entry.watermark_us
    return {
        "batch_id": entry.batch_id,
        "rows": entry.accounting["in_"],
        "results": entry.results,
        "watermark_us": entry.watermark_us,
        "watermark_lag_us": lag,
        "held_by": entry.held_by,
        "max_event_us": max(entry.maxima.values(), default=None),
        "open_windows": entry.open_windows,
        "state_bytes": entry.state_bytes,
        "watermarks": entry.watermarks,
        "seconds": entry.seconds,
        "accounting": named(entry.accounting),
        "totals": named(entry.totals),
        "sums": entry.sums,
        "undelivered_results": entry.undelivered_results,
        "final": entry.final,
    } | ({"stages": stage_accounts(entry)} if entry.stages else {})


def stage_accounts(entry: Entry) -> dict[str, dict[str, dict[str, int]]]:
    """The accounts of windows over the results of others, by name: of the micro-batch, and of all so far."""
    return {
        name: {"accounting": named(counts), "totals": named(entry.stage_totals[name])}
        for name, counts in entry.stages.items()
    }


def named(counts: dict[str, int]) -> dict[str, int]:
    """Counts by the names of the accounting identity: `in`, which is a keyword in Python, has no underscore."""
    return {name.rstrip("_"): count for name, count in counts.items()}


def _now_us() -> int:
    return time.time_ns() // 1000
