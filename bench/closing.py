"""Memory while one window of many groups closes: `python -m bench.closing --groups 5000000 --shards 2`.

Prints the seconds of the micro-batch that closes the window, its results, and the peak memory of the Python workers
(anonymous, the largest one) and of the JVM (resident) meanwhile. The results go to parquet files.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.memory import descendants, is_worker
from windowpane.checkpoint.ledger import Entry
from windowpane.runtime import Pipeline

HOUR_US = 3_600_000_000
FILL_ROWS = 500_000
SQL = "SELECT k, count(*) AS n, sum(v) AS s, window_start FROM s GROUP BY tumblingwindow('hh', 1), k"


class Peaks:
    """The largest memory of any Python worker and of the JVM, in MB, since `reset`."""

    def __init__(self) -> None:
        self.worker = self.jvm = 0.0
        self._done = threading.Event()

    def reset(self) -> None:
        self.worker = self.jvm = 0.0

    @contextlib.contextmanager
    def watching(self) -> Iterator[Peaks]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for process in descendants():
                with contextlib.suppress(OSError, StopIteration):
                    if is_worker(process):
                        self.worker = max(self.worker, _megabytes(process, "RssAnon"))
                    elif (process / "comm").read_text().strip() == "java":
                        self.jvm = max(self.jvm, _megabytes(process, "VmRSS"))


def _megabytes(process: Path, field: str) -> float:
    lines = (process / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def write_input(folder: Path, groups: int, *, close: bool) -> None:
    """Each group once within an hour; then one row that closes it, if `close`."""
    folder.mkdir(parents=True)
    keys = np.random.default_rng(5).permutation(groups)
    parts = [keys[low : low + FILL_ROWS] for low in range(0, groups, FILL_ROWS)]
    for number, part in enumerate([*parts, np.array([0])] if close else parts):
        ts = np.full(len(part), 3 * HOUR_US if number == len(parts) else HOUR_US // 2)
        rows = pa.table({"k": part, "v": part % 1000, "ts": pa.array(ts // 1_000_000)})
        pq.write_table(rows, folder / f"{number:05}.parquet")


def settings(shards: int, cores: int) -> dict[str, Any]:
    """One file per micro-batch, results to parquet."""
    stream = {
        "format": "parquet", "path": "data", "options": {"maxFilesPerTrigger": 1},
        "eventtime": {"column": "ts", "type": "unixtimestamp_s"},
    }  # fmt: skip
    return {
        "streams": {"s": stream},
        "options": {
            "eventtime": {"enabled": True}, "max_future_skew": "off", "trigger": "available_now", "shards": shards,
        },
        "transforms": {"q": {"sql": SQL, "sink": "out"}},
        "sinks": {"out": {"format": "parquet", "path": "out"}},
        "spark": {"master": f"local[{cores}]"},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=5_000_000)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--drain", action="store_true", help="no row closes the window, the end of the pipeline does")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Peaks().watching() as peaks:
        write_input(Path(folder) / "data", given.groups, close=not given.drain)

        def note(_name: str, entry: Entry) -> None:
            print(
                f"batch {entry.batch_id}: {entry.seconds:.2f} s, {entry.results:,} results, "
                f"{entry.state_bytes:,} bytes of state, largest worker {peaks.worker:.0f} MB, JVM {peaks.jvm:.0f} MB",
                flush=True,
            )
            peaks.reset()

        pipeline = Pipeline.from_dict(settings(given.shards, given.cores), Path(folder))
        began = time.monotonic()
        running = pipeline.start(watch=note)
        running.wait()
        if given.drain:
            running.drain()
        written = sum(pq.read_metadata(path).num_rows for path in (Path(folder) / "out").rglob("*.parquet"))
        print(f"{written:,} rows written, {time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
