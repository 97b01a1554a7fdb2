"""As many tasks and shards as a cluster has, on two cores: whether a micro-batch costs more than its parts.

    python -m bench.wide [--widths 8,16,32,64] [--rows 64000]

With W files, W tasks read them, and W shards keep the state: W times W messages. If everything grew by the number of
tasks and shards alone, the time for each of them would stay the same. Bytes and messages are Spark's own figures;
`tests/spark/test_many_shards.py` judges those.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from bench.bids import BEGIN_US, SCHEMA, write_bids
from bench.discard import Discard
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

BATCHES, WARM_UP = 5, 2
GROUPS = 10_000
SQL = """SELECT auction, window_start, window_end, count(*) AS n, sum(price) AS total, max(price) AS top FROM bids
GROUP BY tumblingwindow('hh', 1), auction"""
_OPEN_COST = "spark.sql.files.openCostInBytes"


@dataclass(frozen=True)
class Layout:
    """Micro-batches of `rows` rows in as many files as there are `tasks`, their keys out of `keys`."""

    tasks: int
    shards: int
    rows: int
    keys: int = GROUPS
    batches: int = BATCHES
    warm_up: int = WARM_UP


@dataclass(frozen=True)
class Cost:
    """Of a micro-batch. `partials`: partial results that shards received; `read`: rows of the input in all batches."""

    seconds: float
    partials: float
    messages: float
    shuffle_bytes: float
    driver_bytes: float
    """Results of tasks, with the reports of the shards."""
    read: int


def measure(spark: SparkSession, layout: Layout) -> Cost:
    entries: list[Entry] = []

    def hear(_transform: str, entry: Entry) -> None:
        entries.append(entry)

    with tempfile.TemporaryDirectory(prefix="bench-wide-") as place, _task_for_each_file(spark):
        folder, before = Path(place), _moved(spark)
        _write(folder / "data", layout)
        pipeline = Pipeline.from_dict(_pipeline(layout, folder), sinks={"out": Discard("out")})
        running = pipeline.start(spark, watch=hear)
        running.wait()
        progress = running.transforms[0].query.recentProgress
        running.stop()
        after = _moved(spark)
    took = [each["durationMs"]["triggerExecution"] / 1000 for each in progress if each["numInputRows"]]
    partials = statistics.median(sum(map(sum, entry.shuffled)) for entry in entries)
    read = sum(entry.accounting["in_"] for entry in entries)
    messages, shuffled, to_driver = ((now - then) / layout.batches for now, then in zip(after, before, strict=True))
    return Cost(statistics.median(took[layout.warm_up :]), partials, messages, shuffled, to_driver, read)


def _pipeline(layout: Layout, folder: Path) -> dict[str, object]:
    return {
        "streams": {
            "bids": {
                "format": "parquet", "path": str(folder / "data"), "schema": SCHEMA,
                "eventtime": {"column": "ts", "type": "timestamp"}, "options": {"maxFilesPerTrigger": layout.tasks},
            }
        },
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(folder / "state"),
            "trigger": "available_now", "shards": layout.shards,
        },
        "transforms": {"wide": {"sql": SQL, "sink": "out"}},
        "sinks": {"out": {"format": "memory"}},
    }  # fmt: skip


def _moved(spark: SparkSession) -> tuple[int, int, int]:
    """Messages and bytes that went through shuffles, and bytes of results that tasks sent to the driver."""
    context: Any = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm  # noqa: SLF001  # Spark has no Python API for the figures of stages
    nothing = jvm.java.util.ArrayList()
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    stages = store.stageList(nothing, False, False, gateway.new_array(jvm.double, 0), nothing)
    found = [stages.apply(number) for number in range(stages.size())]
    return (
        sum(stage.shuffleWriteRecords() for stage in found),
        sum(stage.shuffleWriteBytes() for stage in found),
        sum(stage.resultSize() for stage in found),
    )


@contextmanager
def _task_for_each_file(spark: SparkSession) -> Iterator[None]:
    """However small the files are."""
    before = str(spark.conf.get(_OPEN_COST))
    spark.conf.set(_OPEN_COST, str(1 << 27))
    try:
        yield
    finally:
        spark.conf.set(_OPEN_COST, before)


def _write(folder: Path, layout: Layout) -> None:
    folder.mkdir()
    random = np.random.default_rng(5)
    for number in range(layout.tasks * layout.batches):
        count = layout.rows // layout.tasks
        ts = BEGIN_US + random.integers(0, 200_000_000, count)
        path = folder / f"{number:06}.parquet"
        write_bids(path, random.integers(0, layout.keys, count), ts, random)
        os.utime(path, (1_700_000_000 + number,) * 2)


def session(log: Path) -> SparkSession:
    """`log`: what the JVM and the workers print."""
    config: dict[str, str | int | float | bool] = {"spark.driver.memory": "4g", "spark.ui.retainedStages": 100_000}
    return create_session(SparkSettings(master="local[2]", config=config), log=log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="8,16,32,64")
    parser.add_argument("--rows", type=int, default=64_000)
    given = parser.parse_args()
    spark = session(Path(tempfile.mkdtemp(prefix="bench-wide-")) / "spark.log")
    print("tasks and shards   messages   s a micro-batch   ms a task and shard   kB shuffled   kB to the driver")
    for width in map(int, given.widths.split(",")):
        cost = measure(spark, Layout(width, width, given.rows))
        print(
            f"{width:16} {cost.messages:10,.0f} {cost.seconds:17.2f} {cost.seconds / width * 1000:21.1f} "
            f"{cost.shuffle_bytes / 1e3:13,.0f} {cost.driver_bytes / 1e3:18,.0f}", flush=True,
        )  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main()
