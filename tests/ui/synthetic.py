"""A checkpoint as a running pipeline leaves it, written without Spark: for tests of the page, and to measure it."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from windowpane.checkpoint.evolution import begun
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.recent import Event, EventLog, RecentFile
from windowpane.checkpoint.records import FORMAT, encoded
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.status import StatusFile
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import parse_pipeline
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.status import describe_entry
from windowpane.time import format_instant

SECOND = 1_000_000
NASTY = "<img src=x onerror=alert(1)>"
"""Data that must stay text."""
SETTINGS: dict[str, Any] = {
    "streams": {
        "bids": {
            "format": "json", "path": "in", "schema": "bid STRING, auction BIGINT, price BIGINT, ts TIMESTAMP",
            "eventtime": {"column": "ts", "type": "timestamp"},
        }
    },
    "options": {"eventtime": {"enabled": True, "late_tolerance": "3s"}},
    "transforms": {
        "busiest": {
            "sql": "SELECT window_start, auction, count(*) AS bids, max(price) AS top FROM bids WHERE price > 0 "
            "GROUP BY tumblingwindow('ss', 10), auction",
            "sink": "results", "allowed_lateness": "5s", "dedupe": {"key": ["bid"], "within": "1m"},
            "side_output": {kind: {"sink": "aside"} for kind in ("late", "error", "duplicate")},
        },
        "turnover": {
            "sql": "SELECT window_start, sum(price) AS total FROM bids GROUP BY hoppingwindow('ss', 60, 10)",
            "sink": "results",
        },
    },
    "sinks": {name: {"format": "json", "path": name} for name in ("results", "aside")},
}  # fmt: skip
_SIZES = {"busiest": (10 * SECOND, 10 * SECOND), "turnover": (60 * SECOND, 10 * SECOND)}
_LATENESS = {"busiest": 5 * SECOND, "turnover": 0}


@cache
def _plans() -> tuple[Plan, ...]:
    return plan_pipeline(parse_pipeline(SETTINGS, base_dir=Path()))


@dataclass
class Synthetic:
    """Two transforms over one stream. The last partition lags, which keeps windows open."""

    folder: Path
    partitions: int = 4
    behind_s: int = 25
    """How far the slowest partition is behind the others."""
    now_us: int = field(default_factory=lambda: time.time_ns() // 1000 // SECOND * SECOND)
    _batch: int = -1
    _entries: dict[str, Entry] = field(default_factory=dict)
    _recent: dict[str, dict[str, Any]] = field(default_factory=dict)
    _chance: random.Random = field(default_factory=lambda: random.Random(21))

    def __post_init__(self) -> None:
        self.store = FolderStore(self.folder / "state")
        self.store.make_root()
        self.started_us, self.lock = self.now_us, RunLock(self.store)
        self.lock.acquire()
        for plan in _plans():
            self._checkpoint(plan.transform).plan.create(begun(PlanRecord.of(plan, 2), plan))
            self._recent[plan.transform] = {"results": [], "side": [], "windows": [], "closed": []}
        began = [
            Event(self.started_us, "running", "process 4711 runs the pipeline"),
            Event(self.started_us + 5 * SECOND, "warning", f"sink `results` is away: {NASTY}"),
            Event(self.started_us + 9 * SECOND, "warning", "sink `results` is back and has caught up"),
        ]
        EventLog(self.store).add(began)

    def _checkpoint(self, transform: str) -> Checkpoint:
        return Checkpoint(self.store.below(transform))

    def run(self, batches: int) -> None:
        """So many micro-batches, one each second."""
        for _ in range(batches):
            self.tick()
        self.write()

    def tick(self) -> None:
        """A micro-batch of each transform."""
        self._batch += 1
        self.now_us += SECOND
        for transform in _SIZES:
            entry = self._next(transform)
            # Not by `Ledger.write`, which syncs each file to disk.
            content = encoded({"format": FORMAT, **asdict(entry)})
            self.store.below(f"{transform}/ledger").replace(f"{self._batch:012}.json", content, durable=False)
            self._entries[transform] = entry

    def write(self, state: str = "running") -> None:
        """The status, and what else the page reads."""
        RecentFile(self.store).write(self._recent)
        StatusFile(self.store).write(
            {
                "format": 1, "file": str(self.folder / "pipeline.toml"), "pid": 4711, "started_us": self.started_us,
                "state": state, "error": None, "updated_us": time.time_ns() // 1000,
                "transforms": {name: self._status(name, entry) for name, entry in self._entries.items()},
            }
        )  # fmt: skip

    def stop(self) -> None:
        self.lock.release()
        self.write("stopped")

    def _status(self, name: str, entry: Entry) -> dict[str, Any]:
        sinks = {"results": {"up": True, "error": None, "waiting_batches": 0, "waiting_rows": 0, "waiting_bytes": 0,
                             "waiting_since_us": None}}  # fmt: skip
        side = {"aside": {"up": True, "error": None, "delivered": sum(entry.sums["side"].values()), "waiting": 0}}
        routed = name == "busiest"
        more = {
            "sinks": sinks, "side_sinks": side if routed else {}, "rows_per_second": float(entry.accounting["in_"]),
            "routes": dict.fromkeys(("late", "error", "duplicate"), "aside" if routed else "metrics_only"),
            "unread": {"files": 3, "messages": 1_200},
        }  # fmt: skip
        return describe_entry(entry) | more

    def _next(self, transform: str) -> Entry:
        before, chance = self._entries.get(transform), self._chance
        maxima = {f"bids/{number}": self.now_us - chance.randrange(2 * SECOND) for number in range(self.partitions - 1)}
        maxima[f"bids/{self.partitions - 1}"] = self.now_us - self.behind_s * SECOND
        watermark = min(maxima.values()) - 3 * SECOND
        counts = {"late": chance.randrange(4), "error": chance.randrange(2), "duplicate": chance.randrange(6)}
        rows = 900 + chance.randrange(200) + int(200 * ((self._batch // 30) % 2))
        counts |= {"filtered": 60 + chance.randrange(20)} if transform == "busiest" else {"duplicate": 0, "filtered": 0}
        accounting = {"in_": rows, "made": 0, **counts, "evicted": 0, "unmatched": 0, "no_window": 0, "buffered": 0}
        accounting["aggregated"] = rows - sum(counts.values())
        totals = dict(Counter(before.totals if before else {}) + Counter(accounting))
        totals = dict.fromkeys(accounting, 0) | totals
        windows, closed = self._windows(transform, watermark)
        results = len(closed) * (7 if transform == "busiest" else 1)
        self._note_rows(transform, closed, counts, watermark)
        return Entry(
            batch_id=self._batch, clock_us=self.now_us, watermark_us=watermark, accounting=accounting, totals=totals,
            results=results, side={kind: count for kind, count in counts.items() if kind != "filtered" and count},
            maxima=maxima, latest_us=max(maxima.values()), held_by=f"bids/{self.partitions - 1}",
            open_windows=windows, state_bytes=40_000 + 9_000 * windows + chance.randrange(4_000),
            seconds=0.35 + chance.random() / 5, watermarks=self._batch + 1,
            spent={"job": 0.28, "sink": 0.04, "source": 0.11, "fold": 0.06, "pack": 0.02, "state": 0.05, "merge": 0.04},
            times={"column": rows},
        ).summed(before)  # fmt: skip

    def _windows(self, transform: str, watermark: int) -> tuple[int, list[list[int]]]:
        """How many windows are open, and those that the micro-batch has closed."""
        (size, step), lateness, recent = _SIZES[transform], _LATENESS[transform], self._recent[transform]
        first = (watermark - lateness - size) // step * step + step
        count = max(0, (self.now_us - 1 - first) // step + 1)
        before = recent["windows"]
        closed = [[at, at + size] for at in range(before[0][0], first, step)] if before else []
        recent["windows"] = [[first, first + size, step, count]]
        recent["closed"] = [*recent["closed"], *([*bounds, self._batch] for bounds in closed)][-500:]
        return count, closed

    def _note_rows(self, transform: str, closed: list[list[int]], counts: dict[str, int], watermark: int) -> None:
        recent, chance = self._recent[transform], self._chance
        for start, _ in closed:
            own = {"window_start": format_instant(start)}
            rows = [
                {"auction": key, "bids": chance.randrange(900), "top": chance.randrange(500)} for key in range(1, 8)
            ]
            made = rows if transform == "busiest" else [{"total": chance.randrange(10**6)}]
            recent["results"] += [{"batch_id": self._batch, "row": own | row} for row in made]
        for kind in ("late", "error", "duplicate") if transform == "busiest" else ():
            recent["side"] += [self._record(kind, watermark) for _ in range(counts[kind])]
        recent["results"], recent["side"] = recent["results"][-50:], recent["side"][-50:]

    def _record(self, kind: str, watermark: int) -> dict[str, Any]:
        at = watermark - self._chance.randrange(5, 40) * SECOND
        reasons = {"late": "allowed_lateness_exceeded", "error": "decode_error", "duplicate": "dedupe"}
        return {
            "kind": kind, "reason": reasons[kind], "event_time": None if kind == "error" else format_instant(at),
            "processing_time": format_instant(self.now_us), "watermark": format_instant(watermark),
            "window": {"start": format_instant(at // (10 * SECOND) * 10 * SECOND),
                       "end": format_instant((at // (10 * SECOND) + 1) * 10 * SECOND)} if kind == "late" else None,
            "group_key": {"auction": 7} if kind == "late" else None, "shard": "bids/1", "plan_id": "p",
            "original_event": {"bid": NASTY, "auction": 7, "price": self._chance.randrange(500)},
            "error_detail": "'a lot' is no BIGINT" if kind == "error" else None, "transform": "busiest",
        }  # fmt: skip
