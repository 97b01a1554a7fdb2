"""Runs queries on windowpane or on Spark's own windows: `python -m bench.nexmark.spark_job TASK.json`.

A run reads all rows, so many in each micro-batch. Its figure is the time from the end of the first micro-batch, in
which everything is started, to the end of the last, and the rows between.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from bench.discard import Discard
from bench.nexmark.generator import TABLE_COLUMNS
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from bench.nexmark.settings import pipeline
from bench.nexmark.sources import LAG_S, spark_frame, windowpane_stream
from bench.nexmark.spark_queries import spark_query
from bench.nexmark.watching import Ticks, Watch, steady
from windowpane.config import SparkSettings
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

Execute: TypeAlias = Callable[[SparkSession, Query, dict[str, Any], Path], Ticks]


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    execute: Execute = {"windowpane": run_windowpane, "spark": run_spark}[task["engine"]]
    spark = session(task["engine"], task["memory"], task["jars"])
    answers = []
    for run in task["runs"]:
        scratch = Path(task["scratch"]) / "checkpoint"
        query = QUERIES[run["query"]]
        if query.clocked_s and run["out"]:
            _run_by_clock(execute, spark, query, run, scratch)
            answers.append(steady([]))
        else:
            answers.append(steady(execute(spark, query, run, scratch)))
        shutil.rmtree(scratch)
    Path(task["answer"]).write_text(json.dumps(answers), encoding="utf-8")


def session(engine: str, memory: str, jars: Sequence[str] = ()) -> SparkSession:
    """Two cores, two shuffle partitions. Spark's own queries get what its documentation advises for stateful ones."""
    config: dict[str, str | int | float | bool] = {
        "spark.driver.memory": memory,
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    if engine == "spark":
        config |= {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}
    return create_session(SparkSettings(master="local[2]", config=config, jars=tuple(jars)), 2)


def _run_by_clock(execute: Execute, spark: SparkSession, query: Query, run: dict[str, Any], scratch: Path) -> None:
    """Windows that end by the clock are complete when something comes after their end: the last file, held back."""
    held = Path(run["out"] + "-by-clock")
    held.mkdir(parents=True)
    *files, last = sorted(Path(run["folders"]["bids"]).iterdir())
    for file in files:
        os.link(file, held / file.name)
    again = run | {"folders": {"bids": str(held)}}
    execute(spark, query, again, scratch)
    time.sleep(query.clocked_s + 1)
    os.link(last, held / last.name)
    execute(spark, query, again | {"rows": 1}, scratch)
    shutil.rmtree(held)


def run_windowpane(spark: SparkSession, query: Query, run: dict[str, Any], scratch: Path) -> Ticks:
    watch = Watch()
    sinks = {} if run["out"] else {"out": Discard("out")}
    running = Pipeline.from_dict(_settings(query, run, scratch), sinks=sinks).start(spark, watch=watch.hear)
    try:
        if query.clocked_s:
            watch.until(run["rows"], running, and_batches=1)
        else:
            running.wait()
    finally:
        running.stop()
    return [tick for tick in watch.ticks if tick[1]]


def _settings(query: Query, run: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """By the clock micro-batches go on without input, and all that is available now would be one of them."""
    streams: dict[str, Any] = {stream: windowpane_stream(run, stream) for stream in query.streams}
    settings = pipeline(
        query.windowpane, streams, lag=None if query.clocked_s else f"{LAG_S}s", checkpoint=str(scratch), shards=2,
        trigger="as_fast_as_possible" if query.clocked_s else "available_now",
    )  # fmt: skip
    settings |= {
        "tables": {
            name: {"format": "parquet", "path": path, "schema": TABLE_COLUMNS[name]}
            for name, path in run["tables"].items()
        }
    }
    return settings | {"sinks": {"out": {"format": "parquet", "path": run["out"]}}} if run["out"] else settings


def run_spark(spark: SparkSession, query: Query, run: dict[str, Any], scratch: Path) -> Ticks:
    frames: dict[str, DataFrame] = {
        name: spark_frame(spark, run, name, watermarked=not query.clocked_s) for name in query.streams
    }
    frames |= {name: spark.read.parquet(path) for name, path in run["tables"].items()}
    writer = spark_query(query, frames).writeStream.outputMode("append").option("checkpointLocation", str(scratch))
    writer = writer.trigger(availableNow=True)
    out = run["out"]
    writer = writer.foreachBatch(lambda frame, _batch: _keep(frame, out)) if out else writer.format("noop")
    started = writer.start()
    started.awaitTermination()
    return [(_ended(each), each["numInputRows"]) for each in started.recentProgress if each["numInputRows"]]


def _ended(progress: Any) -> float:
    began = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return float(began + progress["durationMs"]["triggerExecution"] / 1000)


def _keep(frame: DataFrame, out: str) -> None:
    frame.write.mode("append").parquet(out)


if __name__ == "__main__":
    main()
