"""What a micro-batch costs beside a large state: windowpane, Spark (RocksDB) and Flink, one after the other in one run.

    python -m bench.state [--groups 10000,1000000] [--cases tumbling,session] [--rows 1000,1000000]
                          [--engines windowpane,spark,flink-rocksdb,flink-hashmap] [--json FILE]

Files of 500,000 rows open the groups. A new process then goes on from the checkpoint, with one file per micro-batch,
whose time is measured; the first third warms up. Flink has no micro-batches: it runs over all files and over those that
open the groups, and the difference is the time for the others, so that it is measured with large files only.
Each run has ten minutes.

Goals: with the most groups, a micro-batch of 1,000 rows takes at most 1.5 times (session, dedupe: 2) what it takes with
the fewest. With 1,000,000 rows windowpane is at least 5 times as fast as Spark, and 2 times as Flink with RocksDB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.nexmark.flink_tables import SETTINGS
from bench.nexmark.on_flink import flink_python, run_flink
from bench.nexmark.processes import EngineError, execute
from bench.state_cases import CASES, flink_statements, write_batches, write_fill

PATIENCE_S = 600.0
BATCHES = {1_000: 150, 1_000_000: 9}
ENGINES = ("windowpane", "spark", "flink-rocksdb", "flink-hashmap")
FEWEST_FOR_FLINK = 100_000
"""Rows per file. With fewer, the difference between two jobs is lost in the time they take to start."""
FILES_FOR_FLINK = 27
"""All jobs open and emit all groups, which takes minutes: what further files add must exceed the noise of that."""


@dataclass(frozen=True)
class Figure:
    """Of one engine, query, number of groups and size of micro-batches."""

    engine: str
    case: str
    groups: int
    rows: int
    median: float | None = None
    p99: float | None = None
    written_mb: float | None = None
    """Per micro-batch, by all processes."""
    peak_mb: float | None = None
    worker_mb: float | None = None
    """The most private memory of a Python worker while the groups were opened, and after."""
    restart: float | None = None
    failed: str | None = None

    def cells(self) -> list[str]:
        if self.failed is not None:
            return [self.failed[:40], "", "", "", "", ""]
        shown = [(self.median, "{:.2f} s"), (self.p99, "{:.2f} s"), (self.written_mb, "{:.1f} MB")]
        shown += [(self.peak_mb, "{:,.0f} MB"), (self.worker_mb, "{:,.0f} MB"), (self.restart, "{:.1f} s")]
        return ["–" if value is None else form.format(value) for value, form in shown]


def measure(engine: str, case: str, groups: int, rows: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        try:
            run = _on_flink if engine.startswith("flink") else _on_spark
            return run(engine, case, groups, rows, Path(folder))
        except EngineError as failed:
            return Figure(engine, case, groups, rows, failed=failed.reason())


def _on_spark(engine: str, case: str, groups: int, rows: int, folder: Path) -> Figure:
    data, command = folder / "data", [sys.executable, "-m", "bench.state_job"]
    task = {"engine": engine, "case": case, "data": str(data), "checkpoint": str(folder / "checkpoint")}
    write_fill(data, groups)
    filled, fill_usage = execute(command, task, seconds=PATIENCE_S)
    write_batches(data, groups, rows, BATCHES[rows])
    answer, usage = execute(command, task, seconds=PATIENCE_S)
    took = answer["seconds"][len(answer["seconds"]) // 3 :]
    return Figure(
        engine, case, groups, rows, statistics.median(took), float(np.percentile(took, 99)),
        written_mb=answer["written"] / 1e6 / len(answer["seconds"]), peak_mb=max(usage.peak_mb, fill_usage.peak_mb),
        worker_mb=max(filled["worker_mb"], answer["worker_mb"]) if engine == "windowpane" else None,
        restart=answer["first"],
    )  # fmt: skip


def _on_flink(engine: str, case: str, groups: int, rows: int, folder: Path) -> Figure:
    if rows < FEWEST_FOR_FLINK:
        return Figure(engine, case, groups, rows)
    python, reason = flink_python()
    if python is None:
        raise EngineError(reason or "Flink is not there")
    write_fill(folder / "warm-up", min(groups, 1_000_000))
    write_fill(folder / "part", groups)
    write_fill(folder / "whole", groups)
    write_batches(folder / "whole", groups, rows, FILES_FOR_FLINK)
    settings = SETTINGS | {"state.backend.type": engine.removeprefix("flink-")}
    jobs = {name: flink_statements(CASES[case], folder / name) for name in ("warm-up", "part", "whole")}
    took, usage = run_flink(python, "flink_job.py", {"settings": settings, "jobs": jobs})
    return Figure(
        engine, case, groups, rows, median=(took["whole"] - took["part"]) / FILES_FOR_FLINK, peak_mb=usage.peak_mb
    )


def main() -> None:
    given = _arguments()
    # The table is too wide for 80 columns.
    console = Console(width=max(Console().width, 120))
    sizes, found = [int(size) for size in given.groups.split(",")], list[Figure]()
    for case in given.cases.split(","):
        for rows in (int(rows) for rows in given.rows.split(",")):
            for groups in sizes:
                for engine in given.engines.split(","):
                    found.append(measure(engine, case, groups, rows))
                    shown = ", ".join(found[-1].cells()[:2])
                    console.print(f"{case}, {groups:,} groups, {rows:,} rows a batch, {engine}: {shown}")
                    if given.json:
                        Path(given.json).write_text(json.dumps([asdict(each) for each in found], indent=1))
    console.print(_table(found))
    for line in _goals(found):
        console.print(line)


def _table(figures: list[Figure]) -> Table:
    table = Table(title="per micro-batch", title_justify="left")
    for heading in ("query", "open groups", "rows", "engine", "median", "p99", "written", "peak", "worker", "restart"):
        table.add_column(heading, justify="left" if heading in ("query", "engine") else "right")
    for each in figures:
        table.add_row(CASES[each.case].name, f"{each.groups:,}", f"{each.rows:,}", each.engine, *each.cells())
    return table


def _goals(figures: list[Figure]) -> list[str]:
    """What the figures say about the goals."""
    by_place = {(each.engine, each.case, each.rows, each.groups): each.median for each in figures}
    lines = []
    for case in dict.fromkeys(each.case for each in figures):
        mine = [each for each in figures if each.case == case and each.engine == "windowpane" and each.median]
        small = sorted((each for each in mine if each.rows == 1_000), key=lambda each: each.groups)
        if len(small) > 1 and small[0].median and small[-1].median:
            ratio = small[-1].median / small[0].median
            lines.append(f"{case}: {small[-1].groups:,} groups take {ratio:.2f}x (goal: ≤ {CASES[case].growth}x)")
        for each in (each for each in mine if each.rows == 1_000_000 and each.median):
            for engine, goal in (("spark", 5.0), ("flink-rocksdb", 2.0)):
                other = by_place.get((engine, case, each.rows, each.groups))
                if other and each.median:
                    ratio = other / each.median
                    lines.append(f"{case}, {each.groups:,} groups: {ratio:.1f}x {engine} (goal: ≥ {goal:.0f}x)")
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.state", description=__doc__.split("\n")[0])
    parser.add_argument("--groups", default="10000,1000000,10000000", help="open groups, fewest first")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--rows", default="1000,1000000", help="rows of a micro-batch: 1000, 1000000, or both")
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--json", help="also write the figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
