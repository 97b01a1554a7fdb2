"""One process of `bench.state`: fills the state of a query, or goes on from its checkpoint and measures.

`python -m bench.state_job TASK.json`: `{"engine", "case", "data", "checkpoint", "answer"}`. The answer has the seconds
of each micro-batch, those from the start of the query to the end of its first micro-batch, the bytes written to disk by
all processes, and the most memory of a Python worker, without what is mapped from files.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.closing import Peaks
from bench.discard import Discard
from bench.memory import descendants
from bench.state_cases import CASES, SCHEMA, pipeline
from windowpane.config import SparkSettings
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONFIG = {
    "spark.driver.memory": "5g",
    "spark.sql.streaming.numRecentProgressUpdates": 100_000,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def _written() -> int:
    total = 0
    for process in (Path("/proc/self"), *descendants()):
        try:
            lines = (process / "io").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
    return total


def _start(spark: SparkSession, task: dict[str, str]) -> StreamingQuery:
    case, data, checkpoint = CASES[task["case"]], Path(task["data"]), Path(task["checkpoint"])
    if task["engine"] == "windowpane":
        made = Pipeline.from_dict(pipeline(case, data, checkpoint), sinks={"out": Discard("out")})
        return made.start(spark).transforms[0].query
    bids = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
    return (
        case.native(bids).writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True).format("noop").start()
    )  # fmt: skip


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    spark = create_session(SparkSettings(master="local[2]", config=CONFIG), 2)
    if task["engine"] == "spark":
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    with Peaks().watching() as peaks:
        began, before = time.monotonic(), _written()
        query = _start(spark, task)
        while not query.recentProgress and query.isActive:
            time.sleep(0.01)
        first = time.monotonic() - began
        query.awaitTermination()
    took = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]
    answer = {"seconds": took, "first": first, "written": _written() - before, "worker_mb": peaks.worker}
    Path(task["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
