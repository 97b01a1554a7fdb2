"""One process of `bench.state`: fills the state of a query, or goes on from its checkpoint and measures.

`python -m bench.state_job TASK.json`: `{"engine", "case", "data", "checkpoint", "answer"}`. The answer has the seconds
of each micro-batch, those from the start of the query to the end of its first micro-batch, the bytes written to disk by
all processes, and the most memory of a Python worker, without what is mapped from files.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.discard import Discard
from bench.nexmark.processes import descendants
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


class WorkerMemory:
    """The most private memory of any Python worker, looked at now and then."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._own = os.getpid()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            for pid in descendants(self._own)[1:]:
                self.peak_mb = max(self.peak_mb, _private_mb(pid))
            time.sleep(0.25)


def _private_mb(pid: int) -> float:
    """RssAnon of a Python process; 0 for others."""
    try:
        if "java" in str(Path(f"/proc/{pid}/exe").readlink()):
            return 0.0
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")), 0.0)


def _written() -> int:
    total = 0
    for pid in descendants(os.getpid()):
        try:
            lines = Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines()
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
    memory, began, before = WorkerMemory(), time.monotonic(), _written()
    query = _start(spark, task)
    while not query.recentProgress and query.isActive:
        time.sleep(0.01)
    first = time.monotonic() - began
    query.awaitTermination()
    took = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress if each["numInputRows"]]
    answer = {"seconds": took, "first": first, "written": _written() - before, "worker_mb": memory.peak_mb}
    Path(task["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
