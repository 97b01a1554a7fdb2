"""How work spreads over shards: dedupe and quotas with one shuffle and with several, and one key with half of the rows.

    python -m bench.spread [--rows 4000000] [--cases dedupe,max_groups,skew] [--shards 2]

Rows per second are the median over the micro-batches of a run, without the first two and the last. The busiest shard's
share is that of the rows or partial results that cross the shuffle.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

FILE_ROWS, KEYS, PER_SECOND = 500_000, 10_000, 20_000
SCHEMA = "id BIGINT, auction BIGINT, price BIGINT, ts TIMESTAMP"
CALLS = "count(*) AS n, sum(price) AS total, max(price) AS top"
REPEATED = 0.05
"""The share of rows that come twice."""
WINDOWS = {
    "tumbling 10 s": "tumblingwindow('ss', 10)",
    "hop 60 s/5 s": "hoppingwindow('ss', 60, 5)",
    "session 30 s": "sessionwindow('ss', 30)",
}


@dataclass(frozen=True)
class Run:
    """One measured run. `hot`: the share of rows that one key has."""

    name: str
    layout: str
    window: str = WINDOWS["tumbling 10 s"]
    transform: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    hot: float = 0.0


def runs(case: str) -> Iterator[Run]:
    if case == "skew":
        for name, window in WINDOWS.items():
            yield Run(name, "all keys alike", window)
            yield Run(name, "half of the rows on one key", window, hot=0.5)
        return
    transform: dict[str, object] = {"dedupe": {"key": ["id"], "within": "1m"}}
    if case == "max_groups":
        transform = {"limits": {"max_groups": KEYS // 2}}
    yield Run(case, "one shuffle", transform=transform, options={"extra_shuffles": False})
    yield Run(case, "several shuffles", transform=transform, options={"extra_shuffles": True})


def write_data(folder: Path, rows: int, hot: float) -> None:
    """Bids with an id each, some of them twice, out of order by up to two seconds."""
    random = np.random.default_rng(7)
    folder.mkdir(parents=True)
    for number in range(rows // FILE_ROWS):
        position = number * FILE_ROWS + np.arange(FILE_ROWS)
        again = random.random(FILE_ROWS) < REPEATED
        auctions = np.where(random.random(FILE_ROWS) < hot, 0, random.integers(0, KEYS, FILE_ROWS))
        ts = 1_700_000_000_000_000 + position * 1_000_000 // PER_SECOND + random.integers(0, 2_000_000, FILE_ROWS)
        columns = {
            "id": np.where(again, np.maximum(position - 1, 0), position) * 2_654_435_761 % 2**61,
            "auction": auctions,
            "price": random.integers(0, 10_000, FILE_ROWS),
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
        }
        path = folder / f"{number:05}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def measure(spark: SparkSession, run: Run, rows: int, shards: int) -> tuple[float, list[list[int]]]:
    """Rows per second, and what each shard received of each shuffle."""
    entries: list[Entry] = []
    with tempfile.TemporaryDirectory(prefix="bench-spread-") as folder:
        write_data(Path(folder) / "data", rows, run.hot)
        pipeline = Pipeline.from_dict(_settings(run, Path(folder), shards), sinks={"out": Discard("out")})
        running = pipeline.start(spark, watch=lambda _, entry: entries.append(entry))
        running.wait()
        running.stop()
    steady = entries[2:-1] or entries
    rate = FILE_ROWS / statistics.median(entry.seconds for entry in steady)
    received = np.sum([entry.shuffled for entry in steady], axis=0)
    return rate, received.tolist()


def _settings(run: Run, folder: Path, shards: int) -> dict[str, object]:
    sql = f"SELECT auction, window_start, window_end, {CALLS} FROM bids GROUP BY {run.window}, auction"
    return {
        "streams": {
            "bids": {
                "format": "parquet", "path": str(folder / "data"), "schema": SCHEMA,
                "eventtime": {"column": "ts", "type": "timestamp"}, "options": {"maxFilesPerTrigger": 1},
            }
        },
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(folder / "state"),
            "trigger": "available_now", "shards": shards, **run.options,
        },
        "transforms": {"bench": {"sql": sql, "sink": "out", **run.transform}},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip


def main() -> None:
    given = _arguments()
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master=f"local[{given.shards}]", config={"spark.driver.memory": "4g"}), 2)
    table = Table(title=f"{given.rows / 1e6:.0f} M rows, {given.shards} shards and cores", title_justify="left")
    for heading in ("query", "layout", "M rows/s", "per batch through shuffle", "busiest shard"):
        table.add_column(heading, justify="left" if heading in ("query", "layout") else "right")
    for run in (each for case in given.cases.split(",") for each in runs(case)):
        rate, received = measure(spark, run, given.rows, given.shards)
        batches = max(1, given.rows // FILE_ROWS - 3)
        crossing = ", ".join(f"{sum(shards) // batches:,}" for shards in received)
        busiest = ", ".join(f"{max(shards) / max(1, sum(shards)):.0%}" for shards in received)
        table.add_row(run.name, run.layout, f"{rate / 1e6:.2f}", crossing, busiest)
    Console(width=120).print(table)
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--cases", default="dedupe,max_groups,skew")
    parser.add_argument("--shards", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
