"""The ten transforms of the jobs benchmark on other engines: one statement set of Flink, and ten queries of Spark.

A figure is what a million further rows cost: the difference between a run over all files and one over a part of them,
so that start and end of a job are not in it.
"""

from __future__ import annotations

import csv
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.nexmark.flink_tables import SETTINGS
from bench.nexmark.on_flink import run_flink
from bench.rollup import processor_seconds
from bench.spark import SCHEMA

CALLS = "count(*) AS n, sum(price) AS total, max(price) AS top"
Results = dict[str, Counter[tuple[int, ...]]]
"""Rows by transform."""


@dataclass(frozen=True)
class Shape:
    """One of the transforms: counts of bids by auction. `over`: the size of a window over the results, in a chain."""

    size: str
    slide: str | None = None
    where: str | None = None
    over: str | None = None

    def sql(self) -> str:
        """For windowpane."""
        kept = f" WHERE {self.where}" if self.where else ""
        kind = f"HOPPING (SIZE {self.size}, SLIDE {self.slide})" if self.slide else f"TUMBLING (SIZE {self.size})"
        counted = f"SELECT auction, {CALLS} FROM bids{kept} GROUP BY auction WINDOW {kind}"
        if self.over is None:
            return counted
        above = f"SELECT auction, sum(n) AS n, max(top) AS top FROM ({counted}) AS below GROUP BY auction"
        return f"{above} WINDOW TUMBLING (SIZE {self.over})"

    @property
    def columns(self) -> list[str]:
        return ["auction", "n", "top"] if self.over else ["auction", "n", "total", "top"]


def spark_query(frame: DataFrame, shape: Shape) -> DataFrame:
    """A transform as Spark's own streaming aggregation."""
    kept = frame.where(shape.where) if shape.where else frame
    calls = F.count("*").alias("n"), F.sum("price").alias("total"), F.max("price").alias("top")
    found = kept.groupBy(F.window("ts", shape.size, shape.slide), "auction").agg(*calls)
    if shape.over is not None:
        calls = F.sum("n").alias("n"), F.max("top").alias("top")  # type: ignore[assignment]
        found = found.groupBy(F.window("window", shape.over), "auction").agg(*calls)
    return found.select(*shape.columns)


def spark_seconds(
    spark: SparkSession, shapes: Mapping[str, Shape], data: Path, files: int, scratch: Path
) -> tuple[float, float]:
    """Clock and processor time of queries that run side by side, to the end of the files."""
    began, spent = time.monotonic(), processor_seconds()
    queries = [_started(spark, shape, data, files, scratch / name) for name, shape in shapes.items()]
    for query in queries:
        query.awaitTermination()
    return time.monotonic() - began, processor_seconds() - spent


def _started(spark: SparkSession, shape: Shape, data: Path, files: int, checkpoint: Path) -> StreamingQuery:
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(data))
    return (
        spark_query(source.withWatermark("ts", "2 seconds"), shape)
        .writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True).format("noop").start()
    )  # fmt: skip


def spark_results(spark: SparkSession, shapes: Mapping[str, Shape], data: Path) -> Results:
    """Of batch queries: what the streams give with complete input."""
    source = spark.read.schema(SCHEMA).parquet(str(data))
    return {name: Counter(map(tuple, spark_query(source, shape).collect())) for name, shape in shapes.items()}


def flink_seconds(python: str, runs: Mapping[str, tuple[Iterable[str], Mapping[str, Shape], Path]]) -> dict[str, float]:
    """Seconds of each run, by Flink's own account. A run has names of transforms, all shapes and a folder of files."""
    jobs = {name: [*_flink_job(list(chosen), shapes, data)] for name, (chosen, shapes, data) in runs.items()}
    took, _usage = run_flink(python, "flink_job.py", {"settings": SETTINGS, "jobs": jobs})
    return {name: float(seconds) for name, seconds in took.items()}


def flink_results(python: str, shapes: Mapping[str, Shape], data: Path, folder: Path) -> Results:
    job = [*_flink_job(list(shapes), shapes, data, folder)]
    run_flink(python, "flink_job.py", {"settings": SETTINGS, "jobs": {"check": job}})
    found: Results = {name: Counter() for name in shapes}
    for name in shapes:
        for part in sorted((folder / name).rglob("*")):
            if part.is_file():
                with part.open(encoding="utf-8", newline="") as text:
                    found[name].update(tuple(map(int, row)) for row in csv.reader(text))
    return found


def _flink_job(chosen: list[str], shapes: Mapping[str, Shape], data: Path, out: Path | None = None) -> Iterator[str]:
    """Statements of which the last is the job: all transforms in one statement set."""
    columns = SCHEMA.replace("TIMESTAMP", "TIMESTAMP(3)")
    yield "DROP TABLE IF EXISTS bids"
    yield (
        f"CREATE TABLE bids ({columns}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = "
        f"'filesystem', 'path' = '{data}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
    )
    yield "DROP TEMPORARY VIEW IF EXISTS seconds"
    yield f"CREATE TEMPORARY VIEW seconds AS {_counted(shapes['chain0'], time=', window_time AS at_time')}"
    for name in chosen:
        columns = ", ".join(f"{column} BIGINT" for column in shapes[name].columns)
        where = f"'filesystem', 'path' = '{out / name}', 'format' = 'csv'" if out else "'blackhole'"
        yield f"DROP TABLE IF EXISTS r_{name}"
        yield f"CREATE TABLE r_{name} ({columns}) WITH ('connector' = {where})"
    inserts = "; ".join(f"INSERT INTO r_{name} {_flink_query(shapes[name])}" for name in chosen)
    yield f"EXECUTE STATEMENT SET BEGIN {inserts}; END"


def _flink_query(shape: Shape) -> str:
    if shape.over is None:
        return _counted(shape)
    kind = f"TUMBLE(TABLE seconds, DESCRIPTOR(at_time), {_interval(shape.over)})"
    calls = "sum(n) AS n, max(top) AS top"
    return f"SELECT auction, {calls} FROM TABLE({kind}) GROUP BY auction, window_start, window_end"


def _counted(shape: Shape, time: str = "") -> str:
    steps = f"{_interval(shape.slide)}, " if shape.slide else ""
    kind = f"{'HOP' if shape.slide else 'TUMBLE'}(TABLE bids, DESCRIPTOR(ts), {steps}{_interval(shape.size)})"
    where = re.sub(r"(\w+) % (\d+)", r"MOD(\1, \2)", shape.where or "")
    kept = f" WHERE {where}" if where else ""
    keys = "auction, window_start, window_end" + (", window_time" if time else "")
    return f"SELECT auction{time}, {CALLS} FROM TABLE({kind}){kept} GROUP BY {keys}"


def _interval(text: str) -> str:
    number, unit = text.split()
    return f"INTERVAL '{number}' {unit.removesuffix('S')}"
