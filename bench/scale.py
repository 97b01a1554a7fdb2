"""The constants of the model in docs/scale.md, and other points that it must predict: one run, about four minutes.

    python -m bench.scale [--record] [--part 10]

The constants are fitted to some points, and must predict the others. All points run in one session on two cores, after
enough micro-batches that Java has compiled what runs often. `--record` writes scale.json and the tables of
the page. The command fails if a prediction is off by more than 25 %.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.scale_messages import measure as measure_messages
from bench.scale_model import Point, Record, Size, fill_page, fit, predictions_table
from bench.wide import Cost, Layout, measure, session

CORES = 2
WARM_UP = (
    Layout(1, 2, 1_000, batches=200, warm_up=0),
    Layout(2, 2, 1_000_000, keys=1_000_000, batches=20, warm_up=0),
    Layout(8, 8, 64_000, batches=20, warm_up=0),
    Layout(2, 2, 1_000_000, keys=1_000, batches=100, warm_up=0),
)
"""Of all kinds: Java compiles what a large micro-batch runs only once there were some."""
SHARDS = Layout(1, 8, 1_000, batches=30, warm_up=6)
FITTED = (
    Layout(1, 2, 1_000, batches=60, warm_up=10),
    Layout(8, 2, 1_000, batches=30, warm_up=6),
    SHARDS,
    Layout(16, 16, 64_000, batches=15, warm_up=4),
    Layout(2, 2, 4_000_000, keys=1_000, batches=12, warm_up=3),
    Layout(2, 2, 1_000_000, keys=100_000, batches=15, warm_up=4),
    Layout(2, 2, 1_000_000, keys=1_000_000, batches=15, warm_up=4),
)
PREDICTED = (
    Layout(4, 4, 1_000, batches=30, warm_up=6),
    Layout(8, 8, 64_000, batches=20, warm_up=4),
    Layout(32, 32, 64_000, batches=9, warm_up=2),
    Layout(2, 2, 1_000_000, keys=1_000, batches=20, warm_up=4),
    Layout(2, 2, 500_000, keys=50_000, batches=20, warm_up=4),
    Layout(2, 2, 250_000, keys=1_000_000, batches=20, warm_up=4),
    Layout(2, 2, 2_000_000, keys=1_000_000, batches=12, warm_up=3),
    Layout(8, 2, 4_000_000, keys=1_000, batches=12, warm_up=3),
)
_ROWS_OF_MESSAGES, _GROUPS_OF_MESSAGES = 65_536, 1_000


def measured(part: int = 1) -> Record:
    """`part`: only one of so many micro-batches, to see that the command works."""
    spark = session(Path(tempfile.mkdtemp(prefix="bench-scale-")) / "spark.log")

    def run(layout: Layout) -> Cost:
        batches = max(layout.batches // part, 3)
        return _told(layout, measure(spark, replace(layout, batches=batches, warm_up=min(layout.warm_up, batches - 1))))

    for layout in WARM_UP:
        run(layout)
    found = {layout: run(layout) for layout in (*FITTED, *PREDICTED)}
    spark.stop()
    points = [Point(_size(layout, cost), cost.seconds, layout in FITTED) for layout, cost in found.items()]
    message, message_bytes, partial_bytes = messages()
    constants = replace(
        fit([point for point in points if point.fitted], message, CORES),
        message_bytes=message_bytes,
        partial_bytes=partial_bytes,
        report_bytes=found[SHARDS].driver_bytes / (SHARDS.tasks + SHARDS.shards),
    )
    return Record(constants, points, machine(), CORES)


def messages() -> tuple[float, float, float]:
    """CPU seconds and bytes of a message, and bytes of a partial result, by the stages without Spark."""
    found = {
        (tasks, shards): measure_messages(tasks, shards, _ROWS_OF_MESSAGES, _GROUPS_OF_MESSAGES)
        for tasks, shards in ((1, 1), (1, 64), (64, 1), (64, 64))
    }
    cpu = {layout: each[0] for layout, each in found.items()}
    _, one_bytes, one_partials = found[1, 1]
    partial_bytes = one_bytes / one_partials
    _, all_bytes, all_partials = found[64, 64]
    count = 64 * 64
    seconds = (cpu[64, 64] - cpu[1, 64] - cpu[64, 1] + cpu[1, 1]) / count
    return max(seconds, 0.0), (all_bytes - partial_bytes * all_partials) / count, partial_bytes


def _size(layout: Layout, cost: Cost) -> Size:
    return Size(layout.tasks, layout.shards, layout.rows, cost.partials)


def _told(layout: Layout, cost: Cost) -> Cost:
    what = f"{layout.tasks} x {layout.shards}, {layout.rows:,} rows, {cost.partials:,.0f} partial results"
    print(f"{what}: {cost.seconds:.3f} s, {cost.shuffle_bytes / 1e6:.2f} MB shuffled", file=sys.stderr, flush=True)
    return cost


def machine() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line]
    name = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"two of {os.cpu_count()} cores of an {name}, Python {platform.python_version()}"


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write scale.json and the tables of docs/scale.md")
    parser.add_argument("--part", type=int, default=1, help="run only one of so many micro-batches")
    given = parser.parse_args()
    record = measured(given.part)
    print(record.constants)
    print(predictions_table(record))
    if given.record:
        record.save()
        fill_page()
    for point in record.misses():
        print(f"{point.size}: the model is off by {record.error(point):+.0%}")
    return 1 if record.misses() else 0


if __name__ == "__main__":
    sys.exit(run())
