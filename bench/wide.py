"""As many tasks and shards as a cluster has, on two cores: whether a micro-batch costs more than its parts.

    python -m bench.wide [--widths 8,16,32,64] [--rows 64000]

With W files, W tasks read them, and W shards keep the state: W times W messages. If everything grew by the number of
tasks and shards alone, the time for each of them would stay the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

import numpy as np

from bench.discard import Discard
from bench.spark import write_bids
from bench.state_cases import BEGIN_US, CASES, pipeline
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

BATCHES, WARM_UP = 5, 2
GROUPS = 10_000


def measure(width: int, rows: int) -> tuple[float, int]:
    """Seconds of a micro-batch, and how many messages it has."""
    took: list[float] = []

    def hear(_transform: str, entry: Entry) -> None:
        took.append(entry.seconds)

    with tempfile.TemporaryDirectory(prefix="bench-wide-") as place:
        folder = Path(place)
        _write(folder / "data", width, rows)
        made = pipeline(CASES["tumbling"], folder / "data", folder / "state")
        made["options"] = {**made["options"], "shards": width}  # type: ignore[dict-item]
        made["streams"]["bids"]["options"] = {"maxFilesPerTrigger": width}  # type: ignore[index]
        # A task for each file, however small.
        config = {"spark.driver.memory": "4g", "spark.sql.files.openCostInBytes": 1 << 27}
        spark = create_session(SparkSettings(master="local[2]", config=config))
        try:
            running = Pipeline.from_dict(made, sinks={"out": Discard("out")}).start(spark, watch=hear)
            running.wait()
            running.stop()
        finally:
            spark.stop()
    return statistics.median(took[WARM_UP:]), width * width


def _write(folder: Path, width: int, rows: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(5)
    for number in range(width * BATCHES):
        count = rows // width
        ts = BEGIN_US + random.integers(0, 200_000_000, count)
        path = folder / f"{number:06}.parquet"
        write_bids(path, random.integers(0, GROUPS, count), ts, random)
        os.utime(path, (1_700_000_000 + number,) * 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="8,16,32,64")
    parser.add_argument("--rows", type=int, default=64_000)
    given = parser.parse_args()
    print("tasks and shards   messages   s a micro-batch   ms a task and shard")
    for width in map(int, given.widths.split(",")):
        seconds, messages = measure(width, given.rows)
        print(f"{width:16} {messages:10,} {seconds:17.2f} {seconds / width * 1000:21.1f}", flush=True)


if __name__ == "__main__":
    main()
