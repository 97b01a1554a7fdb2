"""What a small micro-batch costs beside a large state: windowpane and Spark (RocksDB), one after the other in one run.

    python -m bench.state [--groups 10000,1000000] [--cases tumbling,session] [--batches 24] [--engines windowpane]

Files of 500,000 rows open the groups; then come files of 1,000 rows, one per micro-batch, whose time is measured.
The first four of them warm up. Goal: with the most groups, at most 1.5 times the seconds with the fewest (session: 2).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from bench.spark import ENGINES, Case, write_bids
from windowpane.config import SparkSettings
from windowpane.spark.session import create_session

FILL_ROWS, SMALL_ROWS, WARM_UP = 500_000, 1_000, 4
HOUR_US = 3_600_000_000
BEGIN_US = 1_700_002_800_000_000
"""A full hour."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CASES = {
    "tumbling": Case("tumbling 1 h", "tumblingwindow('hh', 1)", lambda: F.window("ts", "1 hour"), 0, 0, 1.5),
    "hop": Case(
        "hop 1 h/5 min", "hoppingwindow('mi', 60, 5)", lambda: F.window("ts", "1 hour", "5 minutes"), 0, 0, 1.5
    ),
    "session": Case("session 1 h", "sessionwindow('hh', 1)", lambda: F.session_window("ts", "1 hour"), 0, 0, 2.0),
}


@dataclass(frozen=True)
class Figure:
    """Seconds per small micro-batch."""

    median: float
    slowest: float


def write_data(folder: Path, groups: int, batches: int) -> None:
    """Every group once in the first minutes of an hour, then some of them again."""
    random = np.random.default_rng(7)
    folder.mkdir(parents=True)
    keys = random.permutation(groups)
    fills = [keys[low : low + FILL_ROWS] for low in range(0, groups, FILL_ROWS)]
    smalls = [random.integers(0, groups, SMALL_ROWS) for _ in range(batches)]
    for number, auctions in enumerate([*fills, *smalls]):
        # Within five minutes, so that hopping windows have as many groups as the others have.
        ts = BEGIN_US + 60_000_000 + random.integers(0, 200_000_000, len(auctions))
        path = folder / f"{number:05}.parquet"
        write_bids(path, auctions, ts, random)
        os.utime(path, (1_700_000_000 + number,) * 2)


def measure(spark: SparkSession, engine: str, case: Case, groups: int, batches: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        data = Path(folder) / "data"
        write_data(data, groups, batches)
        took = ENGINES[engine](spark, case, data, 1, Path(folder))[-batches:][WARM_UP:]
    return Figure(statistics.median(took), max(took))


def main() -> None:
    given = _arguments()
    config = {"spark.driver.memory": "8g", "spark.sql.streaming.numRecentProgressUpdates": 1000}
    spark = create_session(SparkSettings(master="local[2]", config=config), 2)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    engines, sizes = given.engines.split(","), [int(size) for size in given.groups.split(",")]
    table = Table(title="seconds per micro-batch of 1,000 rows: median (slowest)", title_justify="left")
    for heading in ("query", "open groups", *engines):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    console = Console()
    for name in given.cases.split(","):
        case, found = CASES[name], list[list[Figure]]()
        for groups in sizes:
            found.append([measure(spark, engine, case, groups, given.batches) for engine in engines])
            cells = [f"{each.median:.2f} ({each.slowest:.2f})" for each in found[-1]]
            console.print(f"{case.name}, {groups:,} groups: {', '.join(cells)}")
            table.add_row(case.name, f"{groups:,}", *cells)
        growth = [f"{last.median / first.median:.2f}x" for first, last in zip(found[0], found[-1], strict=True)]
        table.add_row(f"  goal: ≤ {case.goal}x", "growth", *growth)
    console.print(table)
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.state", description=__doc__.split("\n")[0])
    parser.add_argument("--groups", default="10000,1000000,5000000", help="open groups, fewest first")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--batches", type=int, default=24, help="small micro-batches")
    parser.add_argument("--engines", default="windowpane,spark", help=f"of {', '.join(ENGINES)}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
