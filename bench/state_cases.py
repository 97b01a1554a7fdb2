"""The queries of `bench.state` in the three engines' words, and the rows they run over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.bids import BEGIN_US, SCHEMA, write_bids

FILL_ROWS = 500_000
CALLS = "count(*) AS n, sum(price) AS total, max(price) AS top"


_TABLES = ("bids", "results")


@dataclass(frozen=True)
class Case:
    """A query. `growth`: how many times as long a small micro-batch may take with the most groups."""

    name: str
    sql: str
    native: Callable[[DataFrame], DataFrame]
    flink: str
    growth: float
    dedupe: bool = False


def _grouped(window: str) -> str:
    return f"SELECT auction, window_start, window_end, {CALLS} FROM bids GROUP BY {window}, auction"


def _counted(window: Callable[[], object]) -> Callable[[DataFrame], DataFrame]:
    def query(bids: DataFrame) -> DataFrame:
        grouped = bids.withWatermark("ts", "2 seconds").groupBy(window(), "auction")  # type: ignore[arg-type]
        return grouped.agg(F.count("*").alias("n"), F.sum("price").alias("total"), F.max("price").alias("top"))

    return query


def _flink(function: str) -> str:
    return (
        f"SELECT auction, window_start, window_end, {CALLS} FROM TABLE({function}) "
        "GROUP BY auction, window_start, window_end"
    )


CASES = {
    "tumbling": Case(
        "tumbling 1 h", _grouped("tumblingwindow('hh', 1)"), _counted(lambda: F.window("ts", "1 hour")),
        _flink("TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)"), 1.5,
    ),
    "hop": Case(
        "hop 1 h/5 min", _grouped("hoppingwindow('mi', 60, 5)"),
        _counted(lambda: F.window("ts", "1 hour", "5 minutes")),
        _flink("HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '1' HOUR)"), 1.5,
    ),
    "session": Case(
        "session 1 h", _grouped("sessionwindow('hh', 1)"), _counted(lambda: F.session_window("ts", "1 hour")),
        _flink("SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '1' HOUR)"), 2.0,
    ),
    "dedupe": Case(
        "dedupe within 1 h",
        f"SELECT bucket, window_start, window_end, {CALLS} FROM bids GROUP BY tumblingwindow('mi', 1), bucket",
        lambda bids: (
            bids.withWatermark("ts", "1 hour").dropDuplicatesWithinWatermark(["auction"])
            .groupBy(F.window("ts", "1 minute"), "bucket").agg(F.count("*").alias("n"), F.sum("price").alias("total"))
        ),
        f"SELECT bucket, window_start, window_end, {CALLS} FROM TABLE(TUMBLE(TABLE first_bids, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)) GROUP BY bucket, window_start, window_end", 2.0, dedupe=True,
    ),
}  # fmt: skip


def write_fill(folder: Path, groups: int) -> None:
    """Every group once, within minutes of an hour."""
    random = np.random.default_rng(7)
    keys = random.permutation(groups)
    _write(folder, 0, [keys[low : low + FILL_ROWS] for low in range(0, groups, FILL_ROWS)], random)


def write_batches(folder: Path, groups: int, rows: int, batches: int) -> None:
    """Files of so many rows of groups that are there."""
    random = np.random.default_rng(8)
    # Dedupe compares by the key alone, and is to remember some new ones.
    batch_keys = [random.integers(0, groups + groups // 10, rows) for _ in range(batches)]
    _write(folder, 90_000, batch_keys, random)


def _write(folder: Path, first: int, batches: Sequence[np.ndarray], random: np.random.Generator) -> None:  # type: ignore[type-arg]
    folder.mkdir(parents=True, exist_ok=True)
    for number, auctions in enumerate(batches, first):
        # Within five minutes, so that hopping windows have as many groups as the others have.
        ts = BEGIN_US + 60_000_000 + random.integers(0, 200_000_000, len(auctions))
        path = folder / f"{number:05}.parquet"
        write_bids(path, auctions, ts, random)
        os.utime(path, (1_700_000_000 + number,) * 2)


def pipeline(case: Case, data: Path, checkpoint: Path) -> dict[str, object]:
    """For windowpane."""
    transform: dict[str, object] = {"sql": case.sql, "sink": "out"}
    if case.dedupe:
        transform["dedupe"] = {"key": ["auction"], "within": "1h"}
    return {
        "streams": {
            "bids": {
                "format": "parquet", "path": str(data), "schema": SCHEMA,
                "eventtime": {"column": "ts", "type": "timestamp"}, "options": {"maxFilesPerTrigger": 1},
            }
        },
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(checkpoint),
            "trigger": "available_now", "shards": 2,
        },
        "transforms": {"bench": transform},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip


def flink_statements(case: Case, data: Path) -> list[str]:
    """The last one is the job."""
    columns = SCHEMA.replace("TIMESTAMP", "TIMESTAMP(3)")
    source = (
        f"CREATE TABLE bids ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = "
        f"'filesystem', 'path' = '{data}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )
    sink = (
        "CREATE TABLE results (auction BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, "
        "total BIGINT, top BIGINT) WITH ('connector' = 'blackhole')"
    )
    first = (
        "CREATE TEMPORARY VIEW first_bids AS SELECT auction, bucket, price, ts FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY auction ORDER BY ts) AS copy FROM bids) WHERE copy = 1"
    )
    dropped = ["DROP TEMPORARY VIEW IF EXISTS first_bids", *(f"DROP TABLE IF EXISTS {name}" for name in _TABLES)]
    return [*dropped, source, sink, first, f"INSERT INTO results {case.flink}"]
