"""Runs the latency query on windowpane or on Spark until told to stop, and notes when each window's rows are in hand.

`python -m bench.nexmark.latency_job TASK.json`. The answer is `{window end in µs: [rows counted in it, time it came]}`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.nexmark.generator import COLUMNS
from bench.nexmark.settings import file_stream, pipeline
from bench.nexmark.spark_job import session
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.runtime import Pipeline

Arrivals = dict[int, tuple[int, float]]


class Notebook:
    """What has come out so far, by window."""

    def __init__(self) -> None:
        self.arrivals: Arrivals = {}

    def note(self, fetched: pa.Table) -> None:
        """Called when the rows are in hand: readable at the sink is what counts."""
        now = time.time()
        counted = fetched.group_by("window_end").aggregate([("n", "sum")])
        ends_us = counted["window_end"].cast(pa.int64()).to_pylist()
        for end_us, rows in zip(ends_us, counted["n_sum"].to_pylist(), strict=True):
            self.arrivals[end_us] = (self.arrivals.get(end_us, (0, 0.0))[0] + rows, now)


class NotebookSink(Sink):
    """Takes rows in Arrow, as the sinks for files, PostgreSQL and Kafka do."""

    def __init__(self, notebook: Notebook) -> None:
        super().__init__("out")
        self._notebook = notebook

    def write(self, batch: SinkBatch) -> None:
        self._notebook.note(batch.arrow())


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    spark = session(task["engine"], task["memory"])
    notebook = Notebook()
    {"windowpane": _windowpane, "spark": _spark}[task["engine"]](spark, task, notebook)
    Path(task["answer"]).write_text(json.dumps(notebook.arrivals), encoding="utf-8")


def _wait(task: dict[str, Any]) -> None:
    Path(task["ready"]).touch()
    while not Path(task["stop"]).exists():
        time.sleep(0.1)


def _windowpane(spark: SparkSession, task: dict[str, Any], notebook: Notebook) -> None:
    bids = file_stream(task["folder"], COLUMNS["bids"])
    sql = (
        "SELECT auction, window_end, count(*) AS n FROM bids "
        f"GROUP BY tumblingwindow('ms', {task['window_ms']}), auction"
    )
    lag = f"{task['lag_ms']}ms"
    settings = pipeline(sql, {"bids": bids}, lag=lag, checkpoint=task["checkpoint"], shards=2)
    running = Pipeline.from_dict(settings, sinks={"out": NotebookSink(notebook)}).start(spark)
    _wait(task)
    running.stop()


def _spark(spark: SparkSession, task: dict[str, Any], notebook: Notebook) -> None:
    bids = spark.readStream.schema(COLUMNS["bids"]).parquet(task["folder"])
    windows = bids.withWatermark("ts", f"{task['lag_ms']} milliseconds").groupBy(
        F.window("ts", f"{task['window_ms']} milliseconds"), "auction"
    )
    counted = windows.agg(F.count("*").alias("n")).selectExpr("auction", "window.end AS window_end", "n")
    writer = counted.writeStream.outputMode("append").option("checkpointLocation", task["checkpoint"])
    query = writer.foreachBatch(lambda frame, _batch_id: notebook.note(frame.toArrow())).start()
    _wait(task)
    query.stop()


if __name__ == "__main__":
    main()
