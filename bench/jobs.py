"""What ten transforms over one stream cost in one job: against the most expensive of them alone, ten jobs, a statement
set of Flink, and ten queries of Spark.

    python -m bench.jobs [--rows 20000000] [--batch 1] [--rounds 2] [--engines windowpane,spark,flink] [--json FILE]

The transforms have five window sizes, two filters and three chains. All runs read the same parquet files with the
columnar scan, in one session. A figure is the cost of a micro-batch, the median over all rounds without the first third
of each and the last one: seconds by the clock, and processor time of the driver, the JVM and the workers. Each round
begins with another transform, and the JVM is warm when the first one begins. Goal: ten transforms in one job cost at
most twice as much as the most expensive one alone.

Ten jobs run side by side, at a pace of their own each, so they are measured by what further rows cost: the difference
between a run over all files and one over a part of them. Spark's own queries and Flink are measured in the same way
(`job_engines.py`): ten queries side by side and one statement set, each against the most expensive of them alone. Flink
is installed into `.tools/flink`.

Results are compared before any time is taken: of each transform in the job with those of the transform alone, of
Spark's batch queries and of Flink.
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
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from bench.job_engines import Shape, flink_results, flink_seconds, spark_results, spark_seconds
from bench.nexmark.on_flink import flink_python
from bench.rollup import processor_seconds
from bench.spark import FILE_ROWS, SCHEMA, write_data
from windowpane.checkpoint.ledger import Entry
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink, Sink
from windowpane.runtime import Pipeline
from windowpane.spark.session import create_session

GOAL = 2.0
PART = 4
"""The shorter of two runs of Spark and Flink has this fraction of the rows."""
KEYS, PER_SECOND = 1_000, 100_000
SHAPES = {
    **{
        f"w{at}": Shape(size)
        for at, size in enumerate(("1 SECOND", "5 SECONDS", "10 SECONDS", "30 SECONDS", "1 MINUTE"))
    },
    "cheap": Shape("20 SECONDS", "10 SECONDS", where="price < 1000"),
    "odd": Shape("15 SECONDS", where="auction % 2 = 1"),
    **{f"chain{at}": Shape("1 SECOND", over=size) for at, size in enumerate(("10 SECONDS", "1 MINUTE", "1 HOUR"))},
}
QUERIES = {name: shape.sql() for name, shape in SHAPES.items()}
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


def whole_cost(spark: SparkSession, *, data: Path, files: int, checkpoint: Path) -> Cost:
    """Of a run of ten jobs, from its start to its end."""
    began, spent = time.monotonic(), processor_seconds()
    sinks = {name: Discard(name) for name in QUERIES}
    run(spark, QUERIES, sinks, data=data, files=files, checkpoint=checkpoint, share=False)
    return time.monotonic() - began, processor_seconds() - spent


def check(spark: SparkSession, scratch: Path, flink: str | None) -> None:
    """Each transform gives in the job what it gives alone, and what the other engines give."""
    data = scratch / "check"
    write_data(data, 2 * FILE_ROWS, KEYS, PER_SECOND // 10)
    together = {name: MemorySink(name) for name in QUERIES}
    run(spark, QUERIES, together, data=data, files=1, checkpoint=scratch / "checked")
    found = {name: Counter(map(tuple, sink.rows)) for name, sink in together.items()}
    for name, sql in QUERIES.items():
        alone = MemorySink(name)
        run(spark, {name: sql}, {name: alone}, data=data, files=1, checkpoint=scratch / f"checked-{name}")
        _compare(name, "alone", found[name], Counter(map(tuple, alone.rows)))
    for name, rows in spark_results(spark, SHAPES, data).items():
        _compare(name, "Spark", found[name], rows)
    if flink is not None:
        for name, rows in flink_results(flink, SHAPES, data, scratch / "flink-results").items():
            _compare(name, "Flink", found[name], rows)


def _compare(name: str, who: str, found: Counter[Any], wanted: Counter[Any]) -> None:
    if found != wanted or not wanted:
        sys.exit(f"{name}: results differ ({found.total()} rows, {who} {wanted.total()})")


def measure(
    spark: SparkSession, scratch: Path, alone: Sequence[str], *, files: int, rounds: int, rows: int
) -> dict[str, Cost]:
    """The cost of a micro-batch of transforms alone, of all in one job, and of ten jobs."""
    cases = {name: {name: QUERIES[name]} for name in alone} | {"one job": QUERIES}
    costs: dict[str, list[Cost]] = {name: [] for name in [*cases, "ten jobs"]}
    for which in ("part", "data"):
        warm = {name: Discard(name) for name in QUERIES}
        run(spark, QUERIES, warm, data=scratch / which, files=files, checkpoint=scratch / f"warm-up-{which}")
    names = list(cases)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            sinks = {each: Discard(each) for each in cases[name]}
            checkpoint = scratch / f"{number}-{name.replace(' ', '-')}"
            found = run(spark, cases[name], sinks, data=scratch / "data", files=files, checkpoint=checkpoint)
            costs[name] += found[len(found) // 3 : -1] or found
            Console(stderr=True).print(f"{name}: {len(found)} micro-batches", highlight=False)
        part, whole = (
            whole_cost(spark, data=scratch / which, files=files, checkpoint=scratch / f"{number}-ten-{which}")
            for which in ("part", "data")
        )
        more = (rows - rows // PART) / (files * FILE_ROWS)
        costs["ten jobs"].append(((whole[0] - part[0]) / more, (whole[1] - part[1]) / more))
    return {name: (_median(each, 0), _median(each, 1)) for name, each in costs.items()}


def _median(costs: list[Cost], which: int) -> float:
    return statistics.median(cost[which] for cost in costs)


def report(found: dict[str, Cost], title: str) -> Table:
    alone = [name for name in QUERIES if name in found]
    dearest = max(alone, key=lambda name: found[name][1])
    table = Table("run", "seconds", "ratio", "processor time", "ratio", "goal", title=title, title_justify="left")
    rows = {f"{dearest} alone": found[dearest], "one job": found["one job"], "ten jobs": found["ten jobs"]}
    if len(alone) == len(QUERIES):
        summed = tuple(sum(found[name][which] for name in QUERIES) for which in (0, 1))
        rows["ten, one after the other"] = (summed[0], summed[1])
    for name, cost in rows.items():
        ratios = [spent / base for spent, base in zip(cost, found[dearest], strict=True)]
        goal = f"{GOAL}x {'met' if max(ratios) <= GOAL else 'missed'}" if name == "one job" else ""
        table.add_row(name, f"{cost[0]:.3f}", f"{ratios[0]:.2f}x", f"{cost[1]:.3f}", f"{ratios[1]:.2f}x", goal)
    return table


def measure_spark(
    spark: SparkSession, scratch: Path, alone: Sequence[str], *, files: int, rows: int
) -> dict[str, Cost]:
    """Seconds for a million further rows: of queries alone, and of ten side by side."""
    cases = {name: {name: SHAPES[name]} for name in alone} | {"ten queries": SHAPES}
    found: dict[str, Cost] = {}
    spark_seconds(spark, SHAPES, scratch / "part", files, scratch / "spark-warm-up")
    for name, shapes in cases.items():
        part, whole = (
            spark_seconds(spark, shapes, scratch / which, files, scratch / f"spark-{which}-{name.replace(' ', '-')}")
            for which in ("part", "data")
        )
        more = (rows - rows // PART) / 1e6
        found[name] = ((whole[0] - part[0]) / more, (whole[1] - part[1]) / more)
        Console(stderr=True).print(f"Spark, {name}: {whole[0]:.1f} s", highlight=False)
    return found


def measure_flink(python: str, scratch: Path, alone: Sequence[str], rows: int) -> dict[str, float]:
    """Seconds for a million further rows: of queries alone, and of the statement set."""
    cases = {name: [name] for name in alone} | {"statement set": list(SHAPES)}
    runs = {"warm-up": (list(SHAPES), SHAPES, scratch / "part")}
    runs |= {f"{which} {name}": (chosen, SHAPES, scratch / which) for name, chosen in cases.items()
             for which in ("part", "data")}  # fmt: skip
    took = flink_seconds(python, runs)
    return {name: (took[f"data {name}"] - took[f"part {name}"]) / ((rows - rows // PART) / 1e6) for name in cases}


def report_engines(spark: Mapping[str, Cost], flink: Mapping[str, float]) -> Table:
    table = Table(
        "run", "s per M rows", "ratio", "processor time", "ratio", title="other engines", title_justify="left"
    )
    if spark:
        dearest = max((name for name in SHAPES if name in spark), key=lambda name: spark[name][1])
        for name in (dearest, "ten queries"):
            ratios = [spent / base for spent, base in zip(spark[name], spark[dearest], strict=True)]
            clock, processor = spark[name]
            table.add_row(
                f"Spark, {name}", f"{clock:.3f}", f"{ratios[0]:.2f}x", f"{processor:.3f}", f"{ratios[1]:.2f}x"
            )
    if flink:
        slowest = max((name for name in SHAPES if name in flink), key=lambda name: flink[name])
        for name in (slowest, "statement set"):
            table.add_row(f"Flink, {name}", f"{flink[name]:.3f}", f"{flink[name] / flink[slowest]:.2f}x", "", "")
    return table


def main() -> None:
    given = _arguments()
    engines = given.engines.split(",")
    flink = _flink() if "flink" in engines else None
    os.environ.setdefault("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "4g"}), 2)
    with tempfile.TemporaryDirectory(prefix="bench-jobs-") as folder:
        scratch = Path(folder)
        if not given.unchecked:
            check(spark, scratch, flink)
        write_data(scratch / "data", given.rows, KEYS, PER_SECOND)
        write_data(scratch / "part", given.rows // PART, KEYS, PER_SECOND)
        files = max(1, round(given.batch * 1e6 / FILE_ROWS))
        alone, counts = given.alone.split(","), {"files": files, "rows": given.rows}
        found = measure(spark, scratch, alone, rounds=given.rounds, **counts) if "windowpane" in engines else {}
        native = measure_spark(spark, scratch, alone, **counts) if "spark" in engines else {}
        spark.stop()
        others = measure_flink(flink, scratch, alone, given.rows) if flink else {}
    if found:
        Console(width=120).print(report(found, f"micro-batches of {files * FILE_ROWS / 1e6:.1f} M rows"))
    if native or others:
        Console(width=120).print(report_engines(native, others))
    if given.json:
        figures = {"windowpane": found, "spark": native, "flink": others}
        Path(given.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")


def _flink() -> str:
    python, reason = flink_python()
    return python or sys.exit(f"Flink cannot be had: {reason}. Leave it out with --engines windowpane,spark")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--batch", type=float, default=1.0, help="millions of rows a micro-batch")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", default="windowpane", help="windowpane, spark, flink, separated by commas")
    parser.add_argument("--alone", default=",".join(SHAPES), help="transforms that are also measured alone")
    parser.add_argument("--unchecked", action="store_true", help="do not compare results before")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
