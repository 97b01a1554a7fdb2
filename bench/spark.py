"""windowpane against Spark's own windowed aggregation: same parquet files, same session settings, one run, ratios.

    python -m bench.spark [--rows 20000000] [--cases tumbling-1k,hop-60-1] [--batches 2,5] [--floor] [--json FILE]

windowpane is measured twice: by Spark's reader, which is the way of any source, and with the columnar scan.
Results are compared before any time is taken: windowpane, drained, against a Spark batch query over the same files.
A figure is the median of rows per second over the micro-batches of a run, without the first third (warm-up) and the
last. `…_cpu_seconds` of the JSON are the processor time of the whole run.

`--floor` also measures what no design on Spark's micro-batches can avoid: batches that do nothing, and batches with one
job whose Python workers read and aggregate the files, without shuffle, state or account.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from bench.bids import write_bids
from bench.discard import Discard
from bench.nexmark.processes import cpu_seconds_below
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

FILE_ROWS = 500_000
SCHEMA = "auction BIGINT, price BIGINT, ts TIMESTAMP"
CALLS = "count(*) AS n, sum(price) AS total, max(price) AS top"


@dataclass(frozen=True)
class Case:
    """A query in both spellings. `per_second`: rows per second of event time; `goal`: the ratio to reach."""

    name: str
    window: str
    native: Callable[[], object]
    keys: int
    per_second: int
    goal: float


TUMBLING = ("tumblingwindow('ss', 10)", lambda: F.window("ts", "10 seconds"))
CASES = [
    Case("tumbling 10 s, 1 k keys", *TUMBLING, 1_000, 20_000, 1.2),
    Case("10 k keys, 100 rows a group", *TUMBLING, 10_000, 100_000, 1.2),
    Case("10 k keys, 10 rows a group", *TUMBLING, 10_000, 10_000, 3.0),
    Case(
        "hop 60 s/5 s, 1 k keys", "hoppingwindow('ss', 60, 5)", lambda: F.window("ts", "60 seconds", "5 seconds"),
        1_000, 20_000, 3.0,
    ),
    Case(
        "hop 60 s/1 s, 1 k keys", "hoppingwindow('ss', 60, 1)", lambda: F.window("ts", "60 seconds", "1 second"),
        1_000, 20_000, 20.0,
    ),
    Case(
        "session 30 s, 1 k keys", "sessionwindow('ss', 30)", lambda: F.session_window("ts", "30 seconds"),
        1_000, 100, 3.0,
    ),
]  # fmt: skip


def write_data(folder: Path, rows: int, keys: int, per_second: int) -> None:
    """Bids out of order by up to two seconds."""
    random = np.random.default_rng(7)
    folder.mkdir(parents=True)
    for number in range(rows // FILE_ROWS):
        position = number * FILE_ROWS + np.arange(FILE_ROWS)
        ts = 1_700_000_000_000_000 + position * 1_000_000 // per_second + random.integers(0, 2_000_000, FILE_ROWS)
        write_bids(folder / f"{number:05}.parquet", random.integers(0, keys, FILE_ROWS), ts, random)


def settings(case: Case, data: Path, files: int, checkpoint: Path, scan: str = "columnar") -> dict[str, object]:
    return {
        "streams": {
            "bids": {
                "format": "parquet", "path": str(data), "schema": SCHEMA,
                "eventtime": {"column": "ts", "type": "timestamp"}, "options": {"maxFilesPerTrigger": files},
                "scan": scan,
            }
        },
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(checkpoint),
            "trigger": "available_now", "shards": 2,
        },
        "transforms": {
            "bench": {
                "sql": f"SELECT auction, window_start, window_end, {CALLS} FROM bids GROUP BY {case.window}, auction",
                "sink": "out",
            }
        },
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip


def run_windowpane(
    spark: SparkSession, case: Case, data: Path, files: int, scratch: Path, *, scan: str = "spark"
) -> list[float]:
    """Seconds of each micro-batch."""
    sink = Discard("out")
    running = Pipeline.from_dict(settings(case, data, files, scratch / "wp", scan), sinks={"out": sink}).start(spark)
    running.wait()
    took = _seconds(running.transforms[0].query)
    running.stop()
    return took


def _seconds(query: StreamingQuery) -> list[float]:
    return [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]


def run_scan(spark: SparkSession, case: Case, data: Path, files: int, scratch: Path) -> list[float]:
    """The same with files read by the workers."""
    return run_windowpane(spark, case, data, files, scratch, scan="columnar")


def run_native(spark: SparkSession, case: Case, data: Path, files: int, scratch: Path) -> list[float]:
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(data))
    query = (
        native_query(source.withWatermark("ts", "2 seconds"), case)
        .writeStream.outputMode("append").option("checkpointLocation", str(scratch / "native"))
        .trigger(availableNow=True).format("noop").start()
    )  # fmt: skip
    query.awaitTermination()
    return [
        progress["durationMs"]["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def run_nothing(spark: SparkSession, _case: Case, data: Path, files: int, scratch: Path) -> list[float]:
    """Micro-batches that do nothing: Spark lists the files, plans, and writes its logs."""
    return _run_function(spark, data, files, scratch / "nothing", lambda _frame, _batch: None)


def run_one_job(spark: SparkSession, _case: Case, data: Path, files: int, scratch: Path) -> list[float]:
    """Micro-batches with one job, in which Python workers read the files and aggregate them."""

    def read(frame: DataFrame, _batch: int) -> None:
        paths = pa.table({"path": [path.removeprefix("file://") for path in frame.inputFiles()]})
        spark.createDataFrame(paths).mapInArrow(_aggregated, "rows long").collect()

    return _run_function(spark, data, files, scratch / "one_job", read)


def _run_function(
    spark: SparkSession, data: Path, files: int, checkpoint: Path, function: Callable[[DataFrame, int], None]
) -> list[float]:
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(data))
    writer = source.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(function).start()
    query.awaitTermination()
    return [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress]


def _aggregated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column("path").to_pylist():
            rows = pq.read_table(path, columns=["auction", "price", "ts"])
            pane = pc.divide(rows["ts"].cast(pa.int64()), 10_000_000)
            groups = rows.append_column("pane", pane).group_by(["pane", "auction"])
            found = groups.aggregate([("price", "count"), ("price", "sum"), ("price", "max")])
            yield pa.RecordBatch.from_pydict({"rows": pa.array([found.num_rows], pa.int64())})


def native_query(frame: DataFrame, case: Case) -> DataFrame:
    counted = frame.groupBy(case.native(), "auction").agg(  # type: ignore[arg-type]
        F.count("*").alias("n"), F.sum("price").alias("total"), F.max("price").alias("top")
    )
    window = "session_window" if "session" in case.window else "window"
    return counted.selectExpr(
        "auction", f"{window}.start AS window_start", f"{window}.end AS window_end", "n", "total", "top"
    )


def check_equal(spark: SparkSession, case: Case, scratch: Path) -> int:
    """The same rows from both, over the first files; gives their number."""
    data = scratch / "check"
    write_data(data, 2 * FILE_ROWS, case.keys, case.per_second)
    sink = MemorySink("out")
    running = Pipeline.from_dict(settings(case, data, 1, scratch / "checked"), sinks={"out": sink}).start(spark)
    running.wait()
    running.drain()
    wanted = native_query(spark.read.schema(SCHEMA).parquet(str(data)), case).collect()
    got = sorted(tuple(row) for row in sink.rows)
    if got != sorted(tuple(row) for row in wanted):
        sys.exit(f"{case.name}: results differ ({len(got)} rows, Spark has {len(wanted)})")
    return len(got)


def rate(took: list[float], files: int) -> float:
    steady = took[len(took) // 3 : -1] or took
    return files * FILE_ROWS / statistics.median(steady)


ENGINES = {"spark": run_native, "windowpane": run_windowpane, "scan": run_scan}
FLOORS = {"nothing": run_nothing, "one_job": run_one_job}


def main() -> None:
    arguments = _arguments()
    console = Console()
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "6g"}), 2)
    table = Table(title=f"M rows/s over {arguments.rows / 1e6:.0f} M rows, local[2]", title_justify="left")
    for heading in ("query", "rows a batch", "Spark", "windowpane", "ratio", "goal", "columnar scan", "ratio"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    measured = []
    for case in CASES:
        if arguments.cases and not any(word in case.name for word in arguments.cases.split(",")):
            continue
        measured += _measure(spark, case, arguments, console)
    for row in measured:
        ratio = row["windowpane"] / row["spark"]
        table.add_row(
            row["case"], f"{row['batch'] / 1e6:.1f} M", f"{row['spark'] / 1e6:.2f}", f"{row['windowpane'] / 1e6:.2f}",
            f"{ratio:.2f}x", f"{row['goal']:.1f}x {'met' if ratio >= row['goal'] else 'missed'}",
            f"{row['scan'] / 1e6:.2f}", f"{row['scan'] / row['spark']:.2f}x",
        )  # fmt: skip
    console.print(table)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(measured, indent=1), encoding="utf-8")


def _measure(
    spark: SparkSession, case: Case, arguments: argparse.Namespace, console: Console
) -> list[dict[str, object]]:
    scratch = Path(tempfile.mkdtemp(prefix="windowpane-bench-"))
    try:
        rows = check_equal(spark, case, scratch)
        console.print(f"{case.name}: {rows:,} result rows equal; measuring …")
        data = scratch / "data"
        write_data(data, arguments.rows, case.keys, case.per_second)
        found = []
        for millions in arguments.batches.split(","):
            files = round(float(millions) * 1e6 / FILE_ROWS)
            entry: dict[str, object] = {"case": case.name, "batch": files * FILE_ROWS, "goal": case.goal}
            for engine, run in (ENGINES | FLOORS if arguments.floor else ENGINES).items():
                started, before = time.monotonic(), cpu_seconds_below(os.getpid())
                entry[engine] = rate(run(spark, case, data, files, scratch / f"{engine}-{millions}"), files)
                entry[f"{engine}_seconds"] = round(time.monotonic() - started, 1)
                entry[f"{engine}_cpu_seconds"] = round(cpu_seconds_below(os.getpid()) - before, 1)
            console.print(f"  {millions} M rows a batch: {entry}")
            found.append(entry)
        return found
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of each data set")
    parser.add_argument("--cases", help="only cases whose name has one of these words, separated by commas")
    parser.add_argument("--batches", default="2,5", help="millions of rows a micro-batch")
    parser.add_argument("--floor", action="store_true", help="also measure what no design can avoid")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
