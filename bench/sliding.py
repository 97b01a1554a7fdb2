"""Aggregates over the last seconds before every event: windowpane against its unfused path, Spark's batch window
function with RANGE, and Flink's OVER … RANGE, in one run.

    python -m bench.sliding [--rows 1000000] [--batch 500000] [--seconds 10,60] [--engines windowpane,spark]

count, sum and max, for every event, over the rows of its key (1,000 keys) in the 10 and 60 seconds before it. Parquet
files, rows out of order by up to two seconds, results to nowhere. Results are compared before any time is taken. A
figure is rows per second, warm.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.nexmark.on_flink import flink_python
from bench.nexmark.processes import EngineError
from bench.sliding_engines import (
    KEYS,
    Load,
    flink_rate,
    pipeline,
    spark_query,
    spark_rate,
    windowpane_rate,
)
from windowpane.config import SparkSettings
from windowpane.connectors.sinks import MemorySink
from windowpane.spark.session import create_session

ENGINES = ("windowpane", "unfused", "spark", "flink")
FILE_ROWS = 50_000
GOALS = {"windowpane": "≥ 300", "unfused": "10x", "flink": "10x"}


def check_equal(spark: SparkSession, seconds: int, scratch: Path) -> int:
    """The same rows from both paths of windowpane and from Spark; gives their number."""
    load = Load(scratch / "check", 60_000, 20_000, seconds).write()
    wanted = sorted(tuple(row) for row in spark_query(spark, load).collect())
    for fused in (True, False):
        sink = MemorySink("out")
        running = pipeline(load, scratch / f"checked-{fused}", sink, fused=fused).start(spark)
        running.wait()
        running.drain()
        if sorted(tuple(row) for row in sink.rows) != wanted:
            sys.exit(f"{seconds} s, {'fused' if fused else 'unfused'}: results differ from Spark's")
    return len(wanted)


def measure(
    spark: SparkSession, engine: str, seconds: int, arguments: argparse.Namespace, scratch: Path
) -> float | str:
    """Rows per second, or why there is no figure."""
    load = Load(scratch / f"{engine}-data", arguments.rows, FILE_ROWS, seconds)
    match engine:
        case "flink":
            return flink(replace(load, rows=arguments.flink_rows), scratch)
        case "spark":
            return spark_rate(spark, load.write())
    # The first micro-batch is the warm-up: its rows come on top.
    files = max(1, arguments.batch // FILE_ROWS)
    load = Load(load.data, arguments.rows + files * FILE_ROWS, FILE_ROWS, seconds, files).write()
    if engine == "windowpane":
        windowpane_rate(spark, load, scratch / "warm-up", fused=True)
    return windowpane_rate(spark, load, scratch / engine, fused=engine == "windowpane")


def flink(load: Load, scratch: Path) -> float | str:
    python, reason = flink_python()
    if python is None:
        return f"cannot be had here: {reason}"
    try:
        return flink_rate(python, load, scratch)
    except EngineError as failed:
        return failed.reason()


def main() -> None:
    arguments = _arguments()
    console, measured = Console(), dict[int, dict[str, float]]()
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "6g"}), 2)
    for seconds in map(int, arguments.seconds.split(",")):
        scratch = Path(tempfile.mkdtemp(prefix="windowpane-sliding-"))
        measured[seconds] = {}
        try:
            console.print(f"last {seconds} s: {check_equal(spark, seconds, scratch):,} rows equal; measuring …")
            for engine in arguments.engines.split(","):
                rate = measure(spark, engine, seconds, arguments, scratch)
                console.print(f"  {engine}: {rate if isinstance(rate, str) else f'{rate:,.0f} rows/s'}", markup=False)
                measured[seconds] |= {} if isinstance(rate, str) else {engine: rate}
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    _show(measured, arguments)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(measured, indent=1), encoding="utf-8")


def _show(measured: dict[int, dict[str, float]], arguments: argparse.Namespace) -> None:
    title = f"thousand windows/s, {arguments.rows / 1e6:g} M events, {KEYS:,} keys, a window for every event, local[2]"
    table = Table("engine", *(f"last {seconds} s" for seconds in measured), "windowpane is", "goal", title=title)
    for engine in ENGINES:
        rates = [rates[engine] for rates in measured.values() if engine in rates]
        ratios = [
            rates["windowpane"] / rates[engine] for rates in measured.values() if {"windowpane", engine} <= {*rates}
        ]
        if rates:
            times = ", ".join(f"{ratio:.1f}x" for ratio in ratios) if engine != "windowpane" else ""
            table.add_row(engine, *(f"{rate / 1000:,.0f}" for rate in rates), times, GOALS.get(engine, ""))
    Console(width=None if Console().is_terminal else 120).print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="events that are measured")
    parser.add_argument("--flink-rows", type=int, default=1_000_000, help="events on Flink, which takes minutes")
    parser.add_argument("--batch", type=int, default=500_000, help="rows of a micro-batch")
    parser.add_argument("--seconds", default="10,60", help="how far windows look back")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
