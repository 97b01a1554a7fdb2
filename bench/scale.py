"""The constants of the model in docs/scale.md, and other points that it must predict: one run, about four minutes.

    python -m bench.scale [--record] [--part 10]

Each constant comes from a point that differs from an earlier one in one respect. All points run in one session on two
cores, after enough micro-batches that Java has compiled what runs often. `--record` writes scale.json and the tables of
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
from bench.scale_model import SCHEDULE, Constants, Point, Record, Size, fill_page, predictions_table
from bench.wide import Cost, Layout, measure, session

CORES = 2
WARM_UP = Layout(1, 2, 1_000, batches=250, warm_up=0)
SMALL = Layout(1, 2, 1_000, batches=60, warm_up=10)
TASKS = Layout(8, 2, 1_000, batches=30, warm_up=6)
SHARDS = Layout(1, 8, 1_000, batches=20, warm_up=4)
ROWS = Layout(2, 2, 4_000_000, keys=1_000, batches=10, warm_up=3)
PARTIALS = Layout(2, 2, 1_000_000, keys=1_000_000, batches=12, warm_up=4)
PREDICTED = (
    Layout(4, 4, 1_000, batches=20, warm_up=4),
    Layout(8, 8, 64_000, batches=15, warm_up=4),
    Layout(16, 16, 64_000, batches=9, warm_up=3),
    Layout(32, 32, 64_000, batches=6, warm_up=2),
    Layout(2, 2, 1_000_000, keys=1_000, batches=15, warm_up=4),
    Layout(2, 2, 1_000_000, keys=100_000, batches=15, warm_up=4),
    Layout(2, 2, 250_000, keys=1_000_000, batches=15, warm_up=4),
    Layout(2, 2, 2_000_000, keys=1_000_000, batches=9, warm_up=3),
    Layout(8, 2, 4_000_000, keys=1_000, batches=9, warm_up=3),
)
_ROWS_OF_MESSAGES, _GROUPS_OF_MESSAGES = 65_536, 1_000


def measured(part: int = 1) -> Record:
    """`part`: only one of so many micro-batches, to see that the command works."""
    spark = session(Path(tempfile.mkdtemp(prefix="bench-scale-")) / "spark.log")

    def run(layout: Layout) -> Cost:
        batches = max(layout.batches // part, 3)
        return _told(layout, measure(spark, replace(layout, batches=batches, warm_up=min(layout.warm_up, batches - 1))))

    run(WARM_UP)
    found = {layout: run(layout) for layout in (SMALL, TASKS, SHARDS, ROWS, PARTIALS)}
    constants = _constants(found)
    gives = {SMALL: "fixed", TASKS: "task", SHARDS: "shard", ROWS: "row", PARTIALS: "partial"}
    points = [Point(_size(layout, cost), cost.seconds, gives[layout]) for layout, cost in found.items()]
    points += [Point(_size(layout, cost), cost.seconds) for layout, cost in ((each, run(each)) for each in PREDICTED)]
    spark.stop()
    return Record(constants, points, machine(), CORES)


def _constants(found: dict[Layout, Cost]) -> Constants:
    message, message_bytes, partial_bytes = messages()
    small, reports = found[SMALL], found[SHARDS]

    def beyond(layout: Layout, base: Layout) -> float:
        """CPU seconds that one point takes beyond another, without what the driver and messages take."""
        further = layout.tasks + layout.shards - base.tasks - base.shards
        sent = layout.tasks * layout.shards - base.tasks * base.shards
        taken = found[layout].seconds - found[base].seconds - SCHEDULE * further
        return max(taken * CORES - message * sent, 0.0)

    task = beyond(TASKS, SMALL) / (TASKS.tasks - SMALL.tasks)
    shard = beyond(SHARDS, SMALL) / (SHARDS.shards - SMALL.shards)
    row = max(beyond(ROWS, SMALL) - task * (ROWS.tasks - SMALL.tasks), 0.0) / (ROWS.rows - SMALL.rows)
    partial = beyond(PARTIALS, SMALL) - task * (PARTIALS.tasks - SMALL.tasks) - row * (PARTIALS.rows - SMALL.rows)
    rest = Constants(0.0, task, shard, row, max(partial, 0.0) / found[PARTIALS].partials, message, 0.0, 0.0, 0.0)
    fixed = small.seconds - rest.seconds(_size(SMALL, small), CORES)
    report_bytes = reports.driver_bytes / (SHARDS.tasks + SHARDS.shards)
    return Constants(fixed, task, shard, row, rest.partial, message, message_bytes, partial_bytes, report_bytes)


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
