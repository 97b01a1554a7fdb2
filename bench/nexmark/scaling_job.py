"""One point of the scaling figures, on windowpane: `python -m bench.nexmark.scaling_job TASK.json`.

After a warm-up on other files all files are taken as a backlog. Then files of one row come: some that close nothing,
and one that closes every window.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.discard import Discard
from bench.nexmark.spark_job import session
from bench.nexmark.watching import Watch, steady
from windowpane.runtime import Pipeline
from windowpane.runtime.running import RunningPipeline
from windowpane.spark.inspecting import read_holdings


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    spark = session("windowpane", task["memory"])
    sink = Discard("out")
    warm_up = Pipeline.from_dict(task["warm_up"], sinks={"out": sink}).start(spark)
    warm_up.wait()
    warm_up.stop()
    watch = Watch()
    running = Pipeline.from_dict(task["pipeline"], sinks={"out": sink}).start(spark, watch=watch.hear)
    watch.until(task["rows"], running)
    figures = steady(watch.ticks)
    state_batch, windows = len(watch.ticks) - 1, watch.open_windows[-1]
    idle, closing = _closing(task, watch, running)
    running.stop()
    answer = {
        "rate": figures["rows"] / figures["seconds"] if figures["seconds"] else 0.0,
        "state_bytes": _state_bytes(spark, running, state_batch),
        "open_windows": windows,
        "idle_ms": idle * 1000,
        "close_ms": closing * 1000,
    }
    Path(task["answer"]).write_text(json.dumps(answer), encoding="utf-8")


def _closing(task: dict[str, Any], watch: Watch, running: RunningPipeline) -> tuple[float, float]:
    """Seconds from a file's being readable to its batch's end: where it closes nothing, and where it closes all."""
    took = []
    for name in task["single_rows"]:
        wanted = watch.rows + 1
        began = time.monotonic()
        Path(name).rename(Path(task["folder"]) / Path(name).name)
        took.append(watch.until(wanted, running) - began)
    return statistics.median(took[:-1]), took[-1]


def _state_bytes(spark: SparkSession, running: RunningPipeline, batch_id: int) -> int:
    transform = running.transforms[0]
    held = read_holdings(spark, transform.checkpoint.spark, transform.job.dataflow.job, batch_id)
    return int(held.selectExpr("coalesce(sum(size), 0)").collect()[0][0])


if __name__ == "__main__":
    main()
