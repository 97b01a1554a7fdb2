"""What a micro-batch of a few rows costs as a query warms up: windowpane and Spark, one after the other in one run.

    python -m bench.fixed_cost [--batches 400] [--rows 1000] [--engines windowpane,spark]

One file per micro-batch, tumbling windows of 1 h, 10,000 groups. Java compiles what runs often, so the same micro-batch
gets cheaper for about two hundred of them; each line is the median of a quarter of the run.

Goals for the last quarter: half of what Spark takes, and at most 0.12 s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.nexmark.processes import execute
from bench.state import PATIENCE_S
from bench.state_cases import write_batches

QUARTERS = 4


def measured(engine: str, data: Path, folder: Path) -> list[float]:
    """Seconds of each micro-batch."""
    task = {"engine": engine, "case": "tumbling", "data": str(data), "checkpoint": str(folder / engine)}
    answer, _usage = execute([sys.executable, "-m", "bench.state_job"], task, seconds=PATIENCE_S)
    seconds: list[float] = answer["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--rows", type=int, default=1000, help="of a micro-batch")
    parser.add_argument("--engines", default="windowpane,spark")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        write_batches(data, 10_000, given.rows, given.batches)
        found = {engine: measured(engine, data, Path(scratch)) for engine in given.engines.split(",")}
    table = Table("micro-batches", *found, title="seconds per micro-batch, median")
    size = given.batches // QUARTERS
    for first in range(0, QUARTERS * size, size):
        medians = [statistics.median(took[first : first + size]) for took in found.values()]
        table.add_row(f"{first + 1} to {first + size}", *(f"{median:.3f}" for median in medians))
    Console().print(table)


if __name__ == "__main__":
    main()
