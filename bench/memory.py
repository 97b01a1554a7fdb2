"""Memory of the Python workers over a long run: it must stay flat. `python bench/memory.py --rows 30000000`.

Prints the workers' resident memory after every micro-batch, and compares the last third of the run with the middle one.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.sinks import CallableSink
from windowpane.runtime import Pipeline

ALLOWED_GROWTH = 1.15
KEYS = 10_000
ROWS_PER_SECOND_OF_EVENT_TIME = 20_000
SQL = "SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM s GROUP BY tumblingwindow('ss', 10), k"


@dataclass
class Figures:
    """Megabytes after each batch: all Python workers together, and the largest of them."""

    together: list[float] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """The last third against the middle one; the first has the warm-up in it."""
        third = len(self.together) // 3
        return statistics.median(self.together[-third:]) / statistics.median(self.together[third : 2 * third])


class Peak:
    """Watches the workers all the time: what a batch needs while it runs is what counts."""

    def __init__(self) -> None:
        self._top: tuple[float, float] = (0.0, 0.0)
        self._done = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def take(self) -> tuple[float, float]:
        """The peak since the last call."""
        top, self._top = self._top, (0.0, 0.0)
        return top

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            sizes = [_megabytes(process) for process in _workers()] or [0.0]
            self._top = max(self._top[0], sum(sizes)), max(self._top[1], *sizes, 0.0)


def _workers() -> list[Path]:
    """Processes that descend from this one and run PySpark's daemon."""
    return [process for process in descendants() if is_worker(process)]


def is_worker(process: Path) -> bool:
    with contextlib.suppress(OSError):
        command = (process / "cmdline").read_bytes()
        return b"pyspark" in command and b"daemon" in command
    return False


def descendants() -> list[Path]:
    """Processes that descend from this one."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    own = int(Path("/proc/self").resolve().name)
    return [Path(f"/proc/{process}") for process in parents if _descends(process, own, parents)]


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        process = parents.get(process, 0)
    return False


def _megabytes(process: Path) -> float:
    with contextlib.suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


def write_input(folder: Path, rows: int, per_file: int) -> None:
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    for number in range(-(-rows // per_file)):
        index = np.arange(number * per_file, (number + 1) * per_file, dtype=np.int64)
        columns = {
            "ts": index * (1_000_000 // ROWS_PER_SECOND_OF_EVENT_TIME),
            "k": rng.integers(0, KEYS, per_file),
            "v": rng.integers(0, 1000, per_file),
        }
        pq.write_table(pa.table(columns), folder / f"{number:05}.parquet")
        time.sleep(0.01)


def settings() -> dict[str, Any]:
    stream = {
        "format": "parquet", "path": "data", "schema": "ts BIGINT, k BIGINT, v BIGINT",
        "eventtime": {"column": "ts", "type": "unixtimestamp_us"}, "options": {"maxFilesPerTrigger": 1},
    }  # fmt: skip
    return {
        "streams": {"s": stream},
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "1s"}, "trigger": "available_now", "checkpoint": "state",
            "shards": 2,
        },
        "transforms": {"q": {"sql": SQL, "sink": "count"}},
        "sinks": {"count": {"format": "memory"}},
        "spark": {"master": "local[2]", "config": {"spark.driver.memory": "2g"}},
    }  # fmt: skip


def measure(folder: Path, rows: int, per_file: int, *, spark: Any = None) -> Figures:
    """Run it to the end. Results are counted, and must be as many rows as went in."""
    write_input(folder / "data", rows, per_file)
    figures, peak, counted = Figures(), Peak(), list[int]()

    def note(_name: str, entry: Entry) -> None:
        together, largest = peak.take()
        figures.together.append(together)
        figures.largest.append(largest)
        print(f"batch {entry.batch_id:3}  {together:7.0f} MB together  {largest:7.0f} MB the largest", flush=True)

    sink = CallableSink("count", lambda frame, _: counted.append(frame.selectExpr("sum(n)").collect()[0][0]))
    pipeline = Pipeline.from_dict(settings(), folder, sinks={"count": sink})
    with peak.watching():
        running = pipeline.start(spark, watch=note)
        running.wait()
        running.drain()
    if sum(counted) != rows:
        raise RuntimeError(f"{rows} rows went in, {sum(counted)} came out")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), given.rows, given.batch)
    print(f"the last third of the run against the middle one: {figures.growth:.2f} (at most {ALLOWED_GROWTH} is flat)")
    return 0 if figures.growth <= ALLOWED_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
