"""What windows over windows cost on Spark: seconds alone, and seconds, minutes and hours in one query.

    python -m bench.rollup [--rows 20000000] [--batch 1] [--rounds 2] [--json FILE]

Both queries read the same parquet files with the columnar scan, in one session, by turns. A figure is the median over
the micro-batches of all rounds, without the first third of each and the last: seconds by the clock, and processor time
of the driver, the JVM and the workers. Goal: at most 1.3 times the cost of the seconds alone.

Results are compared before any time is taken: minutes over seconds against a Spark batch query over the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from bench.memory import descendants
from bench.spark import FILE_ROWS, SCHEMA, write_data
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink, Sink
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

GOAL = 1.3
KEYS, PER_SECOND = 1_000, 100_000
SECONDS = """SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction
WINDOW TUMBLING (SIZE 1 SECOND)"""
OVER = """SELECT auction, sum(n) AS n, sum(total) AS total, max(top) AS top FROM {below} GROUP BY auction
WINDOW TUMBLING (SIZE 1 {unit})"""
MINUTES = f"WITH seconds AS ({SECONDS}) {OVER.format(below='seconds', unit='MINUTE')}"
HOURS = f"""WITH seconds AS ({SECONDS}), minutes AS ({OVER.format(below="seconds", unit="MINUTE")})
{OVER.format(below="minutes", unit="HOUR")}"""
QUERIES = {"1 s": SECONDS, "1 s to 1 min": MINUTES, "1 s to 1 min to 1 h": HOURS}
Cost = tuple[float, float]
"""Of a micro-batch: seconds by the clock, and processor time."""


def run(spark: SparkSession, settings: dict[str, object], sink: Sink) -> list[Cost]:
    """To the end of the files, and the end of the pipeline if the sink keeps what it gets."""
    entries: list[tuple[Entry, float]] = []
    pipeline = Pipeline.from_dict(settings, sinks={"out": sink})
    running = pipeline.start(spark, watch=lambda _, entry: entries.append((entry, processor_seconds())))
    running.wait()
    if isinstance(sink, MemorySink):
        running.drain()
    running.stop()
    return [(entry.seconds, after - before) for (_, before), (entry, after) in pairwise(entries)]


def settings(sql: str, data: Path, files: int, checkpoint: Path) -> dict[str, object]:
    stream = {
        "format": "parquet", "path": str(data), "schema": SCHEMA, "options": {"maxFilesPerTrigger": files},
        "eventtime": {"column": "ts", "type": "timestamp"},
    }  # fmt: skip
    options = {
        "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(checkpoint),
        "trigger": "available_now", "shards": 2,
    }  # fmt: skip
    return {
        "streams": {"bids": stream}, "options": options, "transforms": {"bench": {"sql": sql, "sink": "out"}},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip


def processor_seconds() -> float:
    """Of this process and all that descend from it, ended ones too."""
    ticks = 0
    for process in descendants():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def check(spark: SparkSession, scratch: Path) -> None:
    """Minutes over seconds are the minutes of a batch query."""
    data, sink = scratch / "check", MemorySink("out")
    write_data(data, 2 * FILE_ROWS, KEYS, PER_SECOND // 10)
    run(spark, settings(MINUTES, data, 1, scratch / "checked"), sink)
    calls = F.count("*"), F.sum("price"), F.max("price")
    grouped = spark.read.schema(SCHEMA).parquet(str(data)).groupBy(F.window("ts", "1 minute"), "auction").agg(*calls)
    wanted = sorted(tuple(row)[1:] for row in grouped.collect())
    if sorted(tuple(row) for row in sink.rows) != wanted:
        sys.exit(f"results differ ({len(sink.rows)} rows, Spark has {len(wanted)})")


def measure(spark: SparkSession, scratch: Path, files: int, rounds: int) -> dict[str, Cost]:
    """The cost of a micro-batch of each query."""
    costs: dict[str, list[Cost]] = {name: [] for name in QUERIES}
    for number in range(rounds):
        for name, sql in QUERIES.items():
            checkpoint = scratch / f"{number}-{list(QUERIES).index(name)}"
            found = run(spark, settings(sql, scratch / "data", files, checkpoint), Discard("out"))
            costs[name] += found[len(found) // 3 : -1] or found
    return {name: (_median(each, 0), _median(each, 1)) for name, each in costs.items()}


def _median(costs: Sequence[Cost], which: int) -> float:
    return statistics.median(cost[which] for cost in costs)


def main() -> None:
    given = _arguments()
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "4g"}), 2)
    with tempfile.TemporaryDirectory(prefix="bench-rollup-") as folder:
        scratch = Path(folder)
        check(spark, scratch)
        write_data(scratch / "data", given.rows, KEYS, PER_SECOND)
        files = max(1, round(given.batch * 1e6 / FILE_ROWS))
        found = measure(spark, scratch, files, given.rounds)
    title = f"micro-batches of {files * FILE_ROWS / 1e6:.1f} M rows, {files * FILE_ROWS // PER_SECOND} s of event time"
    table = Table("query", "seconds", "of 1 s", "processor time", "of 1 s", "goal", title=title, title_justify="left")
    alone = found["1 s"]
    for name, (seconds, used) in found.items():
        ratios = seconds / alone[0], used / alone[1]
        goal = "" if name == "1 s" else f"{GOAL}x {'met' if max(ratios) <= GOAL else 'missed'}"
        table.add_row(name, f"{seconds:.3f}", f"{ratios[0]:.2f}x", f"{used:.3f}", f"{ratios[1]:.2f}x", goal)
    Console(width=120).print(table)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--batch", type=float, default=1.0, help="millions of rows a micro-batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
