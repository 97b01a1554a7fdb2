"""What ten transforms over one stream cost in one job: against the most expensive of them alone, and ten jobs.

    python -m bench.jobs [--rows 8000000] [--batch 1] [--rounds 1] [--json FILE]

The transforms have five window sizes, two filters and three chains. All runs read the same parquet files with the
columnar scan, in one session. A figure is the cost of a micro-batch, the median over all rounds without the first third
of each and the last one: seconds by the clock, and processor time of the driver, the JVM and the workers. Ten jobs run
side by side; their cost is that of reading as many rows. Goal: ten transforms in one job cost at most twice as much as
the most expensive one alone.

Results are compared before any time is taken: of each transform in the job with those of the transform alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from bench.rollup import processor_seconds
from bench.spark import FILE_ROWS, SCHEMA, write_data
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink, Sink
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

GOAL = 2.0
KEYS, PER_SECOND = 1_000, 100_000
COUNTED = "SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS top FROM bids{where} GROUP BY auction"
SECONDS = f"{COUNTED.format(where='')} WINDOW TUMBLING (SIZE 1 SECOND)"
OVER = "SELECT auction, sum(n) AS n, max(top) AS top FROM ({below}) AS below GROUP BY auction WINDOW TUMBLING (SIZE {})"
SIZES = ("1 SECOND", "5 SECONDS", "10 SECONDS", "30 SECONDS", "1 MINUTE")
QUERIES = {
    **{f"w{at}": f"{COUNTED.format(where='')} WINDOW TUMBLING (SIZE {size})" for at, size in enumerate(SIZES)},
    "cheap": f"{COUNTED.format(where=' WHERE price < 1000')} WINDOW HOPPING (SIZE 20 SECONDS, SLIDE 10 SECONDS)",
    "odd": f"{COUNTED.format(where=' WHERE auction % 2 = 1')} WINDOW TUMBLING (SIZE 15 SECONDS)",
    **{f"chain{at}": OVER.format(size, below=SECONDS) for at, size in enumerate(("10 SECONDS", "1 MINUTE", "1 HOUR"))},
}
Cost = tuple[float, float]
"""Of a micro-batch: seconds by the clock, and processor time."""


def run(
    spark: SparkSession, queries: Mapping[str, str], sinks: Mapping[str, Sink], *,
    data: Path, files: int, checkpoint: Path, share: bool = True,
) -> list[Cost]:  # fmt: skip
    """To the end of the files, and of the pipeline if the sinks keep what they get. The cost of each micro-batch."""
    stream = {
        "format": "parquet", "path": str(data), "schema": SCHEMA, "options": {"maxFilesPerTrigger": files},
        "eventtime": {"column": "ts", "type": "timestamp"},
    }  # fmt: skip
    settings = {
        "streams": {"bids": stream},
        "options": {
            "eventtime": {"enabled": True, "late_tolerance": "2s"}, "checkpoint": str(checkpoint),
            "trigger": "available_now", "shards": 2,
        },
        "transforms": {name: {"sql": sql, "sink": name, "share": share} for name, sql in queries.items()},
        "sinks": {name: {"format": "memory"} for name in queries},
    }  # fmt: skip
    batches: dict[int, list[tuple[float, float]]] = {}

    def hear(_: str, entry: Entry) -> None:
        batches.setdefault(entry.batch_id, []).append((time.monotonic(), processor_seconds()))

    running = Pipeline.from_dict(settings, sinks=sinks).start(spark, watch=hear)
    running.wait()
    keeps = any(isinstance(sink, MemorySink) for sink in sinks.values())
    running.drain() if keeps else running.stop()
    # A batch ends when the last transform has ended it.
    ends = [max(found) for _, found in sorted(batches.items())]
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(ends)]


def check(spark: SparkSession, scratch: Path) -> None:
    """Each transform gives in the job what it gives alone."""
    data = scratch / "check"
    write_data(data, 2 * FILE_ROWS, KEYS, PER_SECOND // 10)
    together = {name: MemorySink(name) for name in QUERIES}
    run(spark, QUERIES, together, data=data, files=1, checkpoint=scratch / "checked")
    for name, sql in QUERIES.items():
        alone = MemorySink(name)
        run(spark, {name: sql}, {name: alone}, data=data, files=1, checkpoint=scratch / f"checked-{name}")
        if Counter(map(str, alone.rows)) != Counter(map(str, together[name].rows)) or not alone.rows:
            sys.exit(f"{name}: results differ ({len(together[name].rows)} rows, alone {len(alone.rows)})")


def measure(spark: SparkSession, scratch: Path, files: int, rounds: int) -> dict[str, Cost]:
    """The cost of a micro-batch of each transform alone, of all in one job, and of ten jobs."""
    cases = {name: ({name: sql}, True) for name, sql in QUERIES.items()}
    cases |= {"one job": (QUERIES, True), "ten jobs": (QUERIES, False)}
    costs: dict[str, list[Cost]] = {name: [] for name in cases}
    for number in range(rounds):
        for name, (queries, share) in cases.items():
            sinks = {each: Discard(each) for each in queries}
            checkpoint = scratch / f"{number}-{name.replace(' ', '-')}"
            found = run(spark, queries, sinks, data=scratch / "data", files=files, checkpoint=checkpoint, share=share)
            costs[name] += found[len(found) // 3 : -1] or found
            Console(stderr=True).print(f"{name}: {len(found)} micro-batches", highlight=False)
    return {name: (_median(each, 0), _median(each, 1)) for name, each in costs.items()}


def _median(costs: list[Cost], which: int) -> float:
    return statistics.median(cost[which] for cost in costs)


def report(found: dict[str, Cost], title: str) -> Table:
    dearest = max(QUERIES, key=lambda name: found[name][1])
    table = Table("run", "seconds", "ratio", "processor time", "ratio", "goal", title=title, title_justify="left")
    summed = tuple(sum(found[name][which] for name in QUERIES) for which in (0, 1))
    rows = {f"{dearest} alone": found[dearest], "one job": found["one job"], "ten jobs": found["ten jobs"]}
    rows["ten, one after the other"] = (summed[0], summed[1])
    for name, cost in rows.items():
        ratios = [spent / base for spent, base in zip(cost, found[dearest], strict=True)]
        goal = f"{GOAL}x {'met' if max(ratios) <= GOAL else 'missed'}" if name == "one job" else ""
        table.add_row(name, f"{cost[0]:.3f}", f"{ratios[0]:.2f}x", f"{cost[1]:.3f}", f"{ratios[1]:.2f}x", goal)
    return table


def main() -> None:
    given = _arguments()
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "4g"}), 2)
    with tempfile.TemporaryDirectory(prefix="bench-jobs-") as folder:
        scratch = Path(folder)
        if not given.unchecked:
            check(spark, scratch)
        write_data(scratch / "data", given.rows, KEYS, PER_SECOND)
        files = max(1, round(given.batch * 1e6 / FILE_ROWS))
        found = measure(spark, scratch, files, given.rounds)
    Console(width=120).print(report(found, f"micro-batches of {files * FILE_ROWS / 1e6:.1f} M rows"))
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--batch", type=float, default=1.0, help="millions of rows a micro-batch")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--unchecked", action="store_true", help="do not compare results before")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
