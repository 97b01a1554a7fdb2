"""How fast a backfill is: rows per second of the batch job, of the stream on the same files, and of Spark's own batch.

    python -m bench.backfill [--rows 20000000] [--rounds 2] [--json FILE]

All three read the same parquet files in one session, by turns, and discard their results. The stream has micro-batches
of its default size and runs to the end of the files; windows that are open then stay open. The figure of each is its
best round. Results of the backfill are compared with Spark's before any time is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from bench.spark import FILE_ROWS, SCHEMA, write_data
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink, Sink
from windowpane.core.time_range import TimeRange
from windowpane.runtime import Pipeline
from windowpane.runtime.backfilling import Backfill
from windowpane.spark.session import create_session

KEYS, PER_SECOND = 10_000, 100_000
EVER = TimeRange(-(2**60), 2**60)
SELECT = "SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction "
QUERIES = {
    "tumbling 10 s": (f"{SELECT} WINDOW TUMBLING (SIZE 10 SECONDS)", ("10 seconds", "10 seconds")),
    "hop 60 s / 5 s": (f"{SELECT} WINDOW HOPPING (SIZE 60 SECONDS, SLIDE 5 SECONDS)", ("60 seconds", "5 seconds")),
}


def pipeline(sql: str, data: Path, checkpoint: Path, sink: Sink) -> Pipeline:
    stream = {
        "format": "parquet", "path": str(data), "schema": SCHEMA, "eventtime": {"column": "ts", "type": "timestamp"},
    }  # fmt: skip
    options = {
        "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(checkpoint),
        "trigger": "available_now", "shards": 2,
    }  # fmt: skip
    settings = {
        "streams": {"bids": stream}, "options": options, "transforms": {"bench": {"sql": sql, "sink": "out"}},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip
    return Pipeline.from_dict(settings, sinks={"out": sink})


def batch(spark: SparkSession, data: Path, window: tuple[str, str]) -> DataFrame:
    calls = F.count("*").alias("n"), F.sum("price").alias("total"), F.max("price").alias("top")
    return spark.read.schema(SCHEMA).parquet(str(data)).groupBy(F.window("ts", *window), "auction").agg(*calls)


def check(spark: SparkSession, scratch: Path) -> None:
    """A backfill gives what Spark's batch query gives."""
    data = scratch / "check"
    write_data(data, 2 * FILE_ROWS, KEYS, PER_SECOND // 10)
    for number, (sql, window) in enumerate(QUERIES.values()):
        sink = MemorySink("out")
        Backfill(pipeline(sql, data, scratch / f"checked-{number}", sink), EVER).carry_out(spark)
        wanted = sorted(tuple(row)[1:] for row in batch(spark, data, window).collect())
        if sorted(tuple(row) for row in sink.rows) != wanted:
            sys.exit(f"results differ ({len(sink.rows)} rows, Spark has {len(wanted)})")


def measure(spark: SparkSession, scratch: Path, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Rows per second by query and way."""
    data, found = scratch / "data", dict[str, dict[str, float]]()
    for number in range(rounds):
        for name, (sql, window) in QUERIES.items():
            made = pipeline(sql, data, scratch / f"{number}-{name.replace(' ', '')}".replace("/", "-"), Discard("out"))
            ways: dict[str, Callable[[], object]] = {
                "backfill": lambda made=made: Backfill(made, EVER, "out").carry_out(spark),
                "stream": lambda made=made: _stream(made, spark),
                "Spark's batch": lambda window=window: (
                    batch(spark, data, window).write.format("noop").mode("overwrite").save()
                ),
            }
            for way, run in ways.items():
                began = time.perf_counter()
                run()
                rate = rows / (time.perf_counter() - began)
                best = found.setdefault(name, {})
                best[way] = max(rate, best.get(way, 0.0))
    return found


def _stream(made: Pipeline, spark: SparkSession) -> None:
    running = made.start(spark)
    running.wait()
    running.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "4g"}), 2)
    with tempfile.TemporaryDirectory(prefix="bench-backfill-") as folder:
        check(spark, Path(folder))
        write_data(Path(folder) / "data", given.rows, KEYS, PER_SECOND)
        found = measure(spark, Path(folder), given.rows, given.rounds)
    ways = ("backfill", "stream", "Spark's batch")
    table = Table("query", *ways, title=f"rows per second, {given.rows:,} rows", title_justify="left")
    for name, rates in found.items():
        table.add_row(name, *(f"{rates[way] / 1e6:.2f} M" for way in ways))
    Console(width=120).print(table)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
