"""Runs queries on windowpane or on Spark's own windows: `python -m bench.nexmark.spark_job TASK.json`.

A run reads all files, so many in each micro-batch. Its figure is the time from the end of the first micro-batch, in
which everything is started, to the end of the last, and the rows between.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.nexmark.generator import COLUMNS, Stream
from bench.nexmark.queries import QUERIES, Query
from bench.nexmark.settings import file_stream, pipeline
from bench.nexmark.spark_queries import spark_query
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import CallableSink
from windowpane.runtime import Pipeline
from windowpane.spark.ledger import Entry
from windowpane.spark.session import create_session

LAG_S = 2
Ticks = list[tuple[float, int]]
"""When each micro-batch ended, and the rows it took."""


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    execute = {"windowpane": run_windowpane, "spark": run_spark}[task["engine"]]
    spark = session(task["engine"], task["memory"])
    answers = []
    for run in task["runs"]:
        scratch = Path(task["scratch"]) / "checkpoint"
        ticks = execute(spark, QUERIES[run["query"]], run, scratch)
        answers.append(steady(ticks))
        shutil.rmtree(scratch)
    Path(task["answer"]).write_text(json.dumps(answers), encoding="utf-8")


def session(engine: str, memory: str) -> SparkSession:
    """Two cores, two shuffle partitions. Spark's own queries get what its documentation advises for stateful ones."""
    config: dict[str, str | int | float | bool] = {
        "spark.driver.memory": memory,
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    if engine == "spark":
        config |= {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}
    return create_session(SparkSettings(master="local[2]", config=config), 2)


def steady(ticks: Ticks) -> dict[str, float]:
    """Of a run with one micro-batch there is no steady part: the whole of it is worth nothing as a figure."""
    if len(ticks) < 2:
        return {"rows": 0, "seconds": 0.0, "batches": len(ticks)}
    return {
        "rows": sum(rows for _end, rows in ticks[1:]),
        "seconds": ticks[-1][0] - ticks[0][0],
        "batches": len(ticks),
    }


def run_windowpane(spark: SparkSession, query: Query, run: dict[str, Any], scratch: Path) -> Ticks:
    ticks: Ticks = []

    def hear(_transform: str, entry: Entry) -> None:
        ticks.append((time.monotonic(), entry.accounting["in_"]))

    write = _writer(run["out"])
    sink = CallableSink("out", lambda frame, _batch: write(frame))
    running = Pipeline.from_dict(_settings(query, run, scratch), sinks={"out": sink}).start(spark, watch=hear)
    try:
        running.wait()
    finally:
        running.stop()
    return [tick for tick in ticks if tick[1]]


def _settings(query: Query, run: dict[str, Any], scratch: Path) -> dict[str, Any]:
    streams = {
        name: file_stream(folder, COLUMNS[name], files=run["files"], form=run["format"])
        for name, folder in run["folders"].items()
    }
    return pipeline(
        query.windowpane, streams, lag=f"{LAG_S}s", checkpoint=str(scratch), trigger="available_now",
        shards=run.get("shards", 2),
    )  # fmt: skip


def run_spark(spark: SparkSession, query: Query, run: dict[str, Any], scratch: Path) -> Ticks:
    write = _writer(run["out"])
    result = spark_query(query, {name: _source(spark, run, name) for name in query.streams})
    writer = (
        result.writeStream.outputMode("append").option("checkpointLocation", str(scratch)).trigger(availableNow=True)
    )
    writer = writer.foreachBatch(lambda frame, _batch: write(frame)) if run["out"] else writer.format("noop")
    started = writer.start()
    started.awaitTermination()
    return [(_ended(each), each["numInputRows"]) for each in started.recentProgress if each["numInputRows"]]


def _source(spark: SparkSession, run: dict[str, Any], stream: Stream) -> DataFrame:
    reader = spark.readStream.schema(COLUMNS[stream]).option("maxFilesPerTrigger", run["files"]).format(run["format"])
    return reader.load(run["folders"][stream]).withWatermark("ts", f"{LAG_S} seconds")


def _ended(progress: Any) -> float:
    began = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return float(began + progress["durationMs"]["triggerExecution"] / 1000)


def _writer(out: str | None) -> Callable[[DataFrame], None]:
    if out is None:
        return lambda frame: frame.write.format("noop").mode("append").save()
    return lambda frame: frame.write.mode("append").parquet(out)


if __name__ == "__main__":
    main()
