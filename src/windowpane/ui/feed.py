"""What the page shows, read from a checkpoint: the status, the latest micro-batches, rows, windows and events."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from windowpane.checkpoint.evolution import first_version
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.recent import EventLog, RecentFile
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError
from windowpane.remote.objects import scheme_of
from windowpane.runtime.inspection import find_transforms
from windowpane.runtime.status import read_status

Document: TypeAlias = dict[str, Any]
HISTORY = 300
"""Micro-batches of each transform that are shown."""
REMOTE_HISTORY = 60
"""The same if each is a request to an object store or a file system on other machines."""
PLAN_SECONDS = 10.0
"""How often the plans are read again."""
_BY_TRANSFORM = ("plans", "partitions", "recent")


class Feed:
    """Reads a checkpoint again and again. Reads each entry of the ledger once."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self.is_remote = bool(scheme_of(store.address()))
        self._checkpoints: dict[str, Checkpoint] = {}
        self._records: dict[str, PlanRecord] = {}
        self._planned = float("-inf")
        self._started: object = None
        self._batches: dict[str, deque[Document]] = {}
        self._standing: dict[str, Document] = {}

    def status(self) -> Document | None:
        """The document of `windowpane status --json`; None if nothing has ever run here."""
        return read_status(self._store)

    def read(self) -> Document:
        """All that the page shows now. A part that cannot be read is left out, and `problems` has the reason."""
        problems: list[str] = []
        status = _reading(self.status, None, problems)
        _reading(self._read_plans, None, problems)
        transforms = {} if status is None else status["transforms"]
        for name, each in transforms.items():
            _reading(partial(self._read_ledger, name, int(each["batch_id"]), status), None, problems)
        recent = _reading(RecentFile(self._store).read, {}, problems)
        events = _reading(EventLog(self._store).read, [], problems)
        return {
            "status": status,
            "plans": {
                name: _plan(record) for name, record in self._records.items() if name in transforms or not transforms
            },
            "partitions": {name: self._standing[name] for name in transforms if name in self._standing},
            "history": {name: list(self._batches[name]) for name in transforms if name in self._batches},
            "recent": recent,
            "events": [*events, *self._changes()],
            "problems": problems,
        }

    def _read_plans(self) -> None:
        if self._clock() < self._planned + PLAN_SECONDS and self._records:
            return
        self._planned = self._clock()
        try:
            self._checkpoints = find_transforms(self._store)
        except StateError as none:
            if none.code != "NO_CHECKPOINT":
                raise
            self._checkpoints = {}
        self._records = {name: checkpoint.record() for name, checkpoint in self._checkpoints.items()}

    def _read_ledger(self, name: str, last: int, status: Document | None) -> None:
        """Read the entries up to the batch `last` that are not known yet."""
        started = None if status is None else status["started_us"]
        if started != self._started:  # the batch that a process died in is replayed
            self._started = started
            self._batches.clear()
        if name not in self._checkpoints:
            return
        ledger = self._checkpoints[name].ledger
        known = self._batches.get(name)
        if known is None or (known and known[-1]["batch_id"] > last):
            known = self._batches[name] = deque(maxlen=REMOTE_HISTORY if self.is_remote else HISTORY)
        followed, ids = bool(known), range(known[-1]["batch_id"] + 1, last + 1) if known else ledger.batch_ids()
        for batch_id in list(ids)[-(known.maxlen or HISTORY) :]:
            entry = ledger.read(batch_id) if batch_id <= last else None
            if entry is not None:
                unread = _unread(status, name) if followed or batch_id == last else None
                known.append(_point(entry) | {"unread": unread})
                self._standing[name] = _partitions(entry)

    def _changes(self) -> list[Document]:
        """Changes of the queries as events: `plan.json` keeps them."""
        return [
            {"at_us": each.since_us, "kind": "evolve", "text": f"{name}: {_change(each.change, each.what)}"}
            for name, record in self._records.items()
            for each in record.plans
            if each.since_us is not None and each.change != "new"
        ]


def changes(before: Document, after: Document) -> Document:
    """The parts of `after` that differ, by transform where a part has one each, and new micro-batches only."""
    found: Document = {}
    for key, value in after.items():
        if key == "history":
            new = {name: _newer(before[key].get(name, []), points) for name, points in value.items()}
            new = {name: points for name, points in new.items() if points}
            found |= {key: new} if new else {}
        elif key in _BY_TRANSFORM and before[key].keys() <= value.keys():
            new = {name: each for name, each in value.items() if before[key].get(name) != each}
            found |= {key: new} if new else {}
        elif before[key] != value:
            found[key] = value
    return found


def restarted(before: Document, after: Document) -> bool:
    """Whether the page has to forget what it knows: another process has taken over, or the checkpoint is a new one."""
    return (before["status"] or {}).get("started_us") != (after["status"] or {}).get("started_us")


def _newer(known: list[Document], points: list[Document]) -> list[Document]:
    last = known[-1]["batch_id"] if known else -1
    return [point for point in points if point["batch_id"] > last]


def _reading(read: Callable[[], Any], otherwise: Any, problems: list[str]) -> Any:
    try:
        return read()
    except StateError as failed:
        problems.append(failed.message)
    except (LookupError, TypeError, ValueError, AttributeError) as broken:  # a part of another type inside a record
        problems.append(f"a record of the checkpoint is damaged: {broken!r}")
    return otherwise


def _point(entry: Entry) -> Document:
    """A micro-batch in the charts."""
    return {
        "batch_id": entry.batch_id,
        "clock_us": entry.clock_us,
        "in": entry.accounting["in_"],
        "results": entry.results,
        "side": sum(entry.side.values()),
        "seconds": entry.seconds,
        "spent": entry.spent,
        "state_bytes": entry.state_bytes,
        "open_windows": entry.open_windows,
        "watermark_us": entry.watermark_us,
        "waiting": sum(entry.undelivered_results.values()) + sum(entry.undelivered.values()),
    }


def _unread(status: Document | None, name: str) -> Document:
    """Files and messages that the transform knows of and has not read; older micro-batches have not noted it."""
    found: Document = {} if status is None else status["transforms"].get(name, {}).get("unread", {})
    return found


def _partitions(entry: Entry) -> Document:
    """How far each source partition has come after the last micro-batch."""
    return {
        "batch_id": entry.batch_id, "maxima": entry.maxima, "held_by": entry.held_by, "latest_us": entry.latest_us,
        "watermark_us": entry.watermark_us,
    }  # fmt: skip


def _plan(record: PlanRecord) -> Document:
    """A query as the graph and the time line show it."""
    shape, versions = record.shape, record.plans or (first_version(record, None),)
    read = record.definition.read if record.definition else {}
    found: Document = {
        "plan_id": record.plan_id, "sql": record.definition.sql if record.definition else record.sql,
        "shards": record.shards, "version": record.version, "versions": len(versions), "job": record.job,
        "reads": _direct(record.definition.sql if record.definition else "", read),
    }  # fmt: skip
    if shape is None:
        return found
    return found | {
        "streams": list(shape.streams), "sinks": list(shape.sinks), "window": shape.window, "emit": shape.emit,
        "windows": list(shape.spans), "lag_us": list(shape.lags_us), "lateness_us": list(shape.lateness_us),
        "keys": [text for _, text in shape.keys],
    }  # fmt: skip


def _direct(sql: str, read: Mapping[str, str]) -> list[str]:
    """Of the transforms that a query reads, those that it names itself."""
    words = {word.lower() for word in re.findall(r"[\w-]+", sql)}
    return [name for name in read if name.lower() in words]


def _change(kind: str, what: tuple[str, ...]) -> str:
    return kind.replace("_", " ") + (f" ({', '.join(what)})" if what else "")
