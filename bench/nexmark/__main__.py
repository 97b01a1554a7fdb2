"""The benchmark against Spark and Flink: `python -m bench.nexmark [compare] [latency] [scaling]`, all three by default.

Writes results.json, tables as Markdown and plots as PNG to a folder, and prints the tables. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.nexmark import machine, report
from bench.nexmark.comparison import Sizes, check, measure
from bench.nexmark.engines import ENGINES, Engine
from bench.nexmark.latency import Load, measure_latency
from bench.nexmark.plots import plot_latency, plot_rates, plot_scaling
from bench.nexmark.queries import QUERIES
from bench.nexmark.scaling import measure_point
from bench.nexmark.scaling import points as all_points

MILLION = 1_000_000


class Run:
    """One run of the benchmark: its arguments, its engines, and the files it writes."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.console = Console(stderr=arguments.json, width=None if Console().is_terminal else 180)
        self.engines: list[Engine] = [ENGINES[name]() for name in arguments.engines]
        self.out = Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.results: dict[str, Any] = {"machine": machine.describe(), "arguments": vars(arguments)}

    def keep(self, name: str, part: Any) -> None:
        """Written after every part, so that what was measured is there if the rest fails."""
        self.results[name] = part
        text = json.dumps(self.results, indent=1, ensure_ascii=False)
        (self.out / "results.json").write_text(text, encoding="utf-8")

    def table(self, name: str, title: str, heads: tuple[str, ...], rows: report.Cells) -> None:
        report.show(self.console, title, heads, rows)
        (self.out / f"{name}.md").write_text(report.markdown(heads, rows), encoding="utf-8")

    def plot(self, draw: Callable[[Path], None], name: str) -> None:
        try:
            draw(self.out / f"{name}.png")
        except ImportError as missing:
            self.console.print(f"no {name}.png: {missing}")


def compare(run: Run) -> None:
    given = run.arguments
    batches = [int(float(millions) * MILLION) for millions in given.batches.split(",")]
    sizes = Sizes(given.rows, given.check_rows, batches, given.format)
    comparisons = check([QUERIES[name] for name in given.queries], run.engines, sizes, run.console)
    for comparison in comparisons:
        measure(comparison, run.engines, sizes, run.console)
        run.keep("comparison", [report.as_json(one) for one in comparisons])
    title = f"M rows/s over {given.rows / MILLION:g} M rows of {given.format}, two cores"
    run.table("comparison", title, report.COMPARED, report.comparison_rows(comparisons))
    run.plot(lambda file: plot_rates(run.results["comparison"], file), "rates")


def latency(run: Run) -> None:
    load = Load(run.arguments.rate, seconds=run.arguments.seconds)
    found = []
    for engine in run.engines:
        found.append(measure_latency(engine, load))
        run.keep("latency", [one.as_json() for one in found])
    title = f"latency at {load.rows_per_second:,} rows/s, ms from the row that completes a window to its results"
    run.table("latency", title, report.LATENCY, report.latency_rows(found))
    run.plot(lambda file: plot_latency(run.results["latency"], file), "latency")


def scaling(run: Run) -> None:
    found: list[dict[str, Any]] = []
    for dimension, points in all_points(run.arguments.scaling_rows, run.arguments.rows).items():
        for point in points:
            found.append(measure_point(point))
            run.keep("scaling", found)
            run.console.print(f"{dimension} {point.value:,}: {found[-1].get('note', 'measured')}")
        measured = [one for one in found if one["dimension"] == dimension and "note" not in one]
        run.plot(partial(plot_scaling, dimension, measured), f"scaling-{dimension.replace(' ', '-')}")
    title = "windowpane as work grows; tumbling 10 s, 1 k keys, 2 shards where nothing else is said"
    run.table("scaling", title, report.SCALING, report.scaling_rows(found))


PARTS: dict[str, Callable[[Run], None]] = {"compare": compare, "latency": latency, "scaling": scaling}


def main() -> None:
    # Engines run in sessions of their own: only a Python that unwinds ends them.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("ended"))
    run = Run(_arguments())
    for name in run.arguments.parts or PARTS:
        PARTS[name](run)
    for key, value in run.results["machine"].items():
        run.console.print(f"{key}: {value}")
    if run.arguments.json:
        print(json.dumps(run.results, indent=1, ensure_ascii=False))


def _names(known: dict[str, Any]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
        return chosen

    return parse


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"what to measure: {', '.join(PARTS)}; all if none is named"
    )
    parser.add_argument(
        "--rows", type=int, default=20 * MILLION, help="rows of each data set, and the most where rows grow"
    )
    parser.add_argument("--scaling-rows", type=int, default=10 * MILLION, help="where something else than rows grows")
    parser.add_argument("--check-rows", type=int, default=400_000, help="rows of the data that results are compared on")
    parser.add_argument("--batches", default="1,2,5", help="millions of rows a micro-batch; the best one counts")
    parser.add_argument("--format", choices=["parquet", "json"], default="parquet", help="of the files")
    parser.add_argument("--queries", type=_names(QUERIES), default=list(QUERIES), help="some of: " + ", ".join(QUERIES))
    parser.add_argument("--engines", type=_names(ENGINES), default=list(ENGINES), help="some of: " + ", ".join(ENGINES))
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second where latency is measured")
    parser.add_argument("--seconds", type=int, default=70, help="for which latency is measured, after a warm-up")
    parser.add_argument("--out", default="out/nexmark", help="folder for results.json, tables and plots")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, everything else to stderr")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
