"""The benchmark against Spark and Flink: `python -m bench.nexmark [compare] [latency] [scaling]`, all three by default.

Writes results.json, tables as Markdown and plots as PNG to a folder, and prints the tables. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.nexmark import machine, report
from bench.nexmark.comparison import Sizes, check, measure
from bench.nexmark.engine import Engine
from bench.nexmark.engine_registry import ENGINES
from bench.nexmark.latency import Load, measure_latency
from bench.nexmark.plots import plot_latency, plot_rates, plot_scaling
from bench.nexmark.progress import Progress
from bench.nexmark.queries import QUERIES
from bench.nexmark.results import COMPARISON, LATENCY, SCALING, Results
from bench.nexmark.scaling import measure_point
from bench.nexmark.scaling import points as all_points

MILLION = 1_000_000


class Run:
    """One run of the benchmark: its arguments, its engines, and the files it writes."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.console = Console(stderr=arguments.json, width=None if Console().is_terminal else 180)
        self.progress = Progress(self.console)
        self.engines: list[Engine] = [ENGINES[name]() for name in arguments.engines]
        self.out = Path(arguments.out)
        self.machine = machine.describe()
        self.results = Results(self.out, {"machine": self.machine, "arguments": vars(arguments)})
        self.wrong = False

    def table(
        self, name: str, title: str, heads: tuple[str, ...], rows: report.Cells, notes: Sequence[str] = ()
    ) -> None:
        report.show(self.console, title, heads, rows, notes)
        (self.out / f"{name}.md").write_text(report.markdown(heads, rows, notes), encoding="utf-8")

    def plot(self, draw: Callable[[Path], None], name: str) -> None:
        try:
            draw(self.out / f"{name}.png")
        except ImportError as missing:
            self.progress.say(f"no {name}.png: {missing}")


def compare(run: Run) -> None:
    given = run.arguments
    sizes = Sizes(given.rows, given.check_rows, given.batches, given.format)
    comparisons = check([QUERIES[name] for name in given.queries], run.engines, sizes, run.progress)
    for comparison in comparisons:
        if not given.results_only:
            measure(comparison, run.engines, sizes, run.progress)
        run.results.keep(COMPARISON, [report.as_json(comparison)])
    run.wrong = any(comparison.differs for comparison in comparisons)
    places = {name: place for place, name in enumerate(QUERIES)}
    found = sorted(run.results.figures(COMPARISON), key=lambda one: places.get(one["query"], len(places)))
    notes = report.comparison_notes(found)
    run.table("comparison", "M rows/s, two cores", report.COMPARED, report.comparison_rows(found), notes)
    run.plot(lambda file: plot_rates(found, file), "rates")


def latency(run: Run) -> None:
    load = Load(run.arguments.rate, seconds=run.arguments.seconds, warm_up_s=run.arguments.warm_up)
    for engine in run.engines:
        with run.progress.step(f"latency of {engine.name}, {load.warm_up_s} and {load.seconds} s") as said:
            one = measure_latency(engine, load).as_json()
            said.append(one["note"] or f"{len(one['samples_ms'])} windows, {one['lost']} lost")
        run.results.keep(LATENCY, [one])
    found = run.results.figures(LATENCY)
    title = f"latency at {load.rows_per_second:,} rows/s, ms from the row that completes a window to its results"
    run.table("latency", title, report.LATENCY, report.latency_rows(found))
    run.plot(lambda file: plot_latency(found, file), "latency")


def scaling(run: Run) -> None:
    given = run.arguments
    dimensions = all_points(given.scaling_rows, given.most_rows)
    for dimension in given.dimensions:
        for point in dimensions[dimension]:
            with run.progress.step(f"{dimension} {point.value:,}, {point.rows / MILLION:g} M rows") as said:
                one = measure_point(point)
                said.append(one.get("note") or f"{one['rate'] / 1e6:.2f} M rows/s")
            run.results.keep(SCALING, [one])
        found = run.results.figures(SCALING)
        measured = [one for one in found if one["dimension"] == dimension and "note" not in one]
        if measured:
            run.plot(partial(plot_scaling, dimension, measured), f"scaling-{dimension.replace(' ', '-')}")
    title = "windowpane as work grows; tumbling 10 s, 1 k keys, 2 shards where nothing else is said"
    run.table("scaling", title, report.SCALING, report.scaling_rows(run.results.figures(SCALING)))


PARTS: dict[str, Callable[[Run], None]] = {"compare": compare, "latency": latency, "scaling": scaling}


def main() -> None:
    # Engines run in sessions of their own: only a Python that unwinds ends them.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("ended"))
    run = Run(_arguments())
    for name in run.arguments.parts or PARTS:
        PARTS[name](run)
    for key, value in run.machine.items():
        run.progress.say(f"{key}: {value}")
    if run.arguments.json:
        print(json.dumps(run.results.parts, indent=1, ensure_ascii=False))
    if run.wrong:
        sys.exit("an engine gave other results than expected: see the notes")


def _names(known: dict[str, Any]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
        return chosen

    return parse


def _rows(text: str) -> list[int]:
    """Rows of numbers that are given in millions."""
    try:
        sizes = [int(float(millions) * MILLION) for millions in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text}: millions of rows, separated by commas, such as 0.5,1,2")
    return sizes


def _arguments() -> argparse.Namespace:
    dimensions = all_points(0, 0)
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"what to measure: {', '.join(PARTS)}; all if none is named"
    )
    parser.add_argument("--rows", type=int, default=20 * MILLION, help="to compare rates on; each query has its share")
    parser.add_argument("--most-rows", type=int, default=30 * MILLION, help="scaling: where rows grow")
    parser.add_argument("--scaling-rows", type=int, default=10 * MILLION, help="scaling: where something else grows")
    grows = f"scaling: some of: {', '.join(dimensions)}"
    parser.add_argument("--dimensions", type=_names(dimensions), default=list(dimensions), help=grows)
    parser.add_argument("--check-rows", type=int, default=400_000, help="rows of the data that results are compared on")
    parser.add_argument("--results-only", action="store_true", help="compare results, measure no rates")
    parser.add_argument(
        "--batches", type=_rows, default="1,2,5,10,20", help="millions of rows a micro-batch; the best one counts"
    )
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet", help="of the files")
    parser.add_argument("--queries", type=_names(QUERIES), default=list(QUERIES), help="some of: " + ", ".join(QUERIES))
    parser.add_argument("--engines", type=_names(ENGINES), default=list(ENGINES), help="some of: " + ", ".join(ENGINES))
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second where latency is measured")
    parser.add_argument("--seconds", type=int, default=70, help="for which latency is measured, after a warm-up")
    parser.add_argument("--warm-up", type=int, default=20, help="seconds of it")
    parser.add_argument("--out", default="out/nexmark", help="folder for results.json, tables and plots")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, everything else to stderr")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
