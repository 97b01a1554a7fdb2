"""End-to-end latency at a fixed rate: from a file's being readable to the rows in hand of the window it completes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.nexmark import flink_tables
from bench.nexmark.engine import Engine
from bench.nexmark.generator import TIME, Shape, chunk
from bench.nexmark.processes import EngineError

WINDOW_MS, LAG_MS, STEP_S = 500, 100, 0.1
READY_WITHIN_S = 120.0


@dataclass(frozen=True)
class Load:
    """`rows_per_second` for `seconds`, after `warm_up_s` that do not count."""

    rows_per_second: int = 20_000
    keys: int = 1_000
    seconds: int = 60
    warm_up_s: int = 20


@dataclass
class Latency:
    """`lost`: windows that were complete long before the end and did not come out, or with another count of rows."""

    engine: str
    samples_ms: list[float] = field(default_factory=list)
    lost: int = 0
    note: str = ""

    def percentile(self, share: float) -> float | None:
        return float(np.percentile(self.samples_ms, share, method="higher")) if self.samples_ms else None

    def as_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine, "p50_ms": self.percentile(50), "p99_ms": self.percentile(99), "lost": self.lost,
            "samples_ms": [round(sample, 1) for sample in self.samples_ms], "note": self.note,
        }  # fmt: skip


class Feeder:
    """Writes a file every step, with rows of that very time, and notes when it was there to be read."""

    def __init__(self, folder: Path, load: Load) -> None:
        self._folder, self._load = folder, load
        self.readable: list[tuple[int, float]] = []
        """The latest time in each file in µs, and the moment it was readable."""
        self.rows: dict[int, int] = {}
        """Rows by the end in µs of the window they belong to."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join()

    def _feed(self) -> None:
        begin_ms, number = int(time.time() * 1000), 0
        step_ms = int(STEP_S * 1000)
        while not self._done.wait(max(0.0, (begin_ms + (number + 1) * step_ms) / 1000 - time.time())):
            self._write(begin_ms + number * step_ms, step_ms, number)
            number += 1

    def _write(self, first_ms: int, step_ms: int, number: int) -> None:
        count = int(self._load.rows_per_second * STEP_S)
        times_us = (first_ms + np.arange(count) * step_ms // count) * 1000
        table = chunk("bids", Shape(keys=self._load.keys), number * count, count)
        table = table.set_column(table.column_names.index("ts"), "ts", pa.array(times_us, TIME))
        hidden = self._folder.parent / f"{number:06}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self._folder / hidden.name)
        self.readable.append((int(times_us[-1]), time.time()))
        width_us = WINDOW_MS * 1000
        ends, counts = np.unique(times_us // width_us * width_us + width_us, return_counts=True)
        for end_us, rows in zip(ends.tolist(), counts.tolist(), strict=True):
            self.rows[end_us] = self.rows.get(end_us, 0) + rows


def measure_latency(engine: Engine, load: Load) -> Latency:
    if (reason := engine.missing()) is not None:
        return Latency(engine.name, note=reason)
    with tempfile.TemporaryDirectory(prefix="windowpane-latency-") as scratch, ThreadPoolExecutor(1) as pool:
        folder = Path(scratch) / "bids"
        folder.mkdir()
        task = {
            "folder": str(folder), "checkpoint": f"{scratch}/checkpoint", "window_ms": WINDOW_MS, "lag_ms": LAG_MS,
            "ready": f"{scratch}/ready", "stop": f"{scratch}/stop", "statements": flink_statements(folder),
        }  # fmt: skip
        answer = pool.submit(engine.latency, task)
        try:
            return _fed(engine.name, answer, folder, task, load)
        except EngineError as failed:
            return Latency(engine.name, note=failed.reason())
        finally:
            with contextlib.suppress(OSError):
                os.close(os.open(task["stop"], os.O_CREAT))  # type: ignore[arg-type]


def _fed(name: str, answer: Any, folder: Path, task: dict[str, Any], load: Load) -> Latency:
    ready, patience = Path(task["ready"]), time.time() + READY_WITHIN_S
    while not ready.exists():
        if answer.done():
            answer.result()
            raise EngineError("it ended before there was anything to read")
        if time.time() > patience:
            raise EngineError(f"it did not start within {READY_WITHIN_S:.0f} s")
        time.sleep(0.1)
    with Feeder(folder, load) as feeder:
        time.sleep(load.warm_up_s + load.seconds)
        end_s = time.time()
        Path(task["stop"]).touch()
        arrivals = {int(end_us): tuple(seen) for end_us, seen in answer.result().items()}
    return _latency(name, feeder, arrivals, (end_s - load.seconds, end_s))


def _latency(name: str, feeder: Feeder, arrivals: dict[int, Any], between_s: tuple[float, float]) -> Latency:
    """Windows completed within the time that counts. The last ten seconds are for those that are on their way."""
    latest_us = np.array([time_us for time_us, _at in feeder.readable])
    samples, lost = [], 0
    for end_us, rows in sorted(feeder.rows.items()):
        completing = int(np.searchsorted(latest_us - LAG_MS * 1000, end_us))
        if completing >= len(latest_us) or not between_s[0] <= feeder.readable[completing][1] < between_s[1] - 10:
            continue
        counted, came = arrivals.get(end_us, (0, 0.0))
        if counted == rows:
            samples.append((came - feeder.readable[completing][1]) * 1000)
        else:
            lost += 1
    return Latency(name, samples, lost)


def flink_statements(folder: Path) -> Sequence[str]:
    return flink_tables.latency(folder, WINDOW_MS, LAG_MS)
