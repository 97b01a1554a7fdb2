"""The latest results, side rows and windows of a transform, for the live page.

A micro-batch only leaves references to what it has in memory anyway. `document` makes JSON of them, in another thread
and about once a second.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windowpane.checkpoint.outbox import PendingBatch
from windowpane.core.windows import AlignedWindows
from windowpane.spark.gathering import Gathered
from windowpane.spark.unpacking import SideRecords
from windowpane.time import format_instant, from_datetime

Document: TypeAlias = dict[str, Any]
KEPT_ROWS = 50
KEPT_OPEN, KEPT_CLOSED = 2_000, 500
SAMPLE_SECONDS = 10.0
"""How often results that Spark must compute (HAVING, ORDER BY …) are computed once more for the page."""
SAMPLE_BYTES = 1_000_000
"""Larger payloads are not kept in memory for that."""
_RECORD_BYTES, _TEXT_LENGTH, _EXACT = 4_000, 300, 2**53
_BATCHES = 100
"""Micro-batches between two calls of `document` whose windows are remembered."""


class RecentRows:
    """Collects what one transform has given last. `windows`: of the source's window, if its bounds are shared."""

    def __init__(
        self,
        windows: AlignedWindows | None = None,
        before: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`before`: what an earlier process has left."""
        earlier, self._clock, self._lock = dict(before or {}), clock, threading.Lock()
        self._windows = windows
        self._results: deque[Document] = deque(earlier.get("results", []), KEPT_ROWS)
        self._side: deque[Document] = deque(earlier.get("side", []), KEPT_ROWS)
        self._closed: deque[list[int]] = deque(earlier.get("closed", []), KEPT_CLOSED)
        self._open: dict[int, tuple[int, int]] = {}
        self._tables: deque[tuple[int, pa.Table]] = deque(maxlen=KEPT_ROWS)
        self._pending: deque[tuple[SideRecords, PendingBatch]] = deque(maxlen=KEPT_ROWS)
        self._runs: deque[tuple[int, Sequence[Sequence[int]]]] = deque(maxlen=_BATCHES)
        self._unread: tuple[int, Gathered] | None = None
        self._sampled, self.changed = float("-inf"), False

    def note_windows(self, batch_id: int, runs: Sequence[Sequence[int]]) -> None:
        """Keys of the windows that are open after a micro-batch, as `arithmetic_runs` of all shards."""
        with self._lock:
            self._runs.append((batch_id, runs))
            self.changed = True

    def note_results(self, batch_id: int, gathered: Gathered, table: pa.Table | None) -> None:
        """The results of a micro-batch: in Arrow, or to be computed by Spark."""
        with self._lock:
            if table is not None:
                self._tables.append((batch_id, table.slice(max(0, table.num_rows - KEPT_ROWS))))
            elif not gathered.large_results and sum(map(len, gathered.results)) < SAMPLE_BYTES:
                self._unread = (batch_id, gathered)
            self.changed = True

    def note_side(self, side_records: SideRecords, pending: PendingBatch) -> None:
        """Side rows on their way to a sink."""
        with self._lock:
            self._pending.append((side_records, pending))
            self.changed = True

    def document(self, *, last: bool = False) -> Document:
        """All that is kept, as JSON values. `last`: the pipeline ends, and Spark with it."""
        with self._lock:
            tables, pending, runs = list(self._tables), list(self._pending), list(self._runs)
            unread, self.changed = self._unread, False
            self._tables.clear()
            self._pending.clear()
            self._runs.clear()
        if unread is not None and not last and self._clock() >= self._sampled + SAMPLE_SECONDS:
            self._sampled, self._unread = self._clock(), None
            tables.append((unread[0], unread[1].results_frame().limit(KEPT_ROWS).toArrow()))
        for batch_id, table in tables:
            self._results.extend({"batch_id": batch_id, "row": row} for row in shown_rows(table))
        for side_records, rows in pending:
            self._side.extend(_records(side_records, rows))
        for batch_id, found in runs:
            self._take_windows(batch_id, found)
        return {
            "results": list(self._results), "side": list(self._side), "closed": list(self._closed),
            "windows": bound_runs(list(self._open.values())[:KEPT_OPEN]),
        }  # fmt: skip

    def _take_windows(self, batch_id: int, runs: Sequence[Sequence[int]]) -> None:
        if self._windows is None:
            return
        keys = np.unique(np.concatenate([first + step * np.arange(count) for first, step, count in runs] or [_NONE]))
        starts, ends = self._windows.bounds(keys)
        now = dict(zip(keys.tolist(), zip(starts.tolist(), ends.tolist(), strict=True), strict=True))
        self._closed.extend([*self._open[key], batch_id] for key in self._open if key not in now)
        self._open = now


_NONE = np.array([], np.int64)


def bound_runs(bounds: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Windows as [start, end, step, count], one for each run of windows of one length that are `step` apart.

    >>> bound_runs([(0, 10), (10, 20), (20, 30), (50, 60)])
    [[0, 10, 10, 3], [50, 60, 0, 1]]
    """
    found: list[list[int]] = []
    for start, end in bounds:
        first, last, step, count = found[-1] if found else [0, 0, 0, 0]
        apart = start - first - step * (count - 1)
        if count and end - start == last - first and apart > 0 and (count == 1 or apart == step):
            found[-1] = [first, last, apart, count + 1]
        else:
            found.append([start, end, 0, 1])
    return found


def shown_rows(table: pa.Table) -> list[Document]:
    """Rows as JSON values: times as texts, numbers that JavaScript cannot hold too, long texts cut."""
    try:
        rows = table.to_pylist()
    except (OverflowError, ValueError):  # a time that Python has no value for
        rows = table.cast(pa.schema([(name, pa.string()) for name in table.schema.names])).to_pylist()
    return [{name: _shown(value) for name, value in row.items()} for row in rows]


def _shown(value: object) -> object:
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= _EXACT else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dt.datetime() if value.tzinfo is not None:
            return format_instant(from_datetime(value))
        case list() | tuple():
            return [_shown(each) for each in value]
        case dict():
            return {str(key): _shown(each) for key, each in value.items()}
    text = str(value)
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"


def _records(side_records: SideRecords, pending: PendingBatch) -> list[Document]:
    """The last side rows of a micro-batch."""
    short, left = replace(side_records, max_bytes=_RECORD_BYTES), KEPT_ROWS
    batches: list[pa.RecordBatch] = []
    for batch in reversed(pending.batches):
        batches.append(batch.slice(max(0, batch.num_rows - left)))
        left -= batches[-1].num_rows
        if not left:
            break
    texts = [*short.texts(reversed(batches)), *short.fitted(list(pending.texts)[-KEPT_ROWS:])]
    return [_exact(json.loads(text)) for text in texts]


def _exact(record: Document) -> Document:
    """A record with numbers that JavaScript can hold."""
    return {name: _shown(value) for name, value in record.items()}
