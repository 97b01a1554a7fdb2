"""Measure the core side by side: each figure against its goal, and rates against one pyarrow group_by.

`python bench/core.py [--json] [--cpu] [--only NAME]`. Results are checked against an independent computation before any
time is taken. See README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import time

from core_closing import close_latency, recompute, state_sizes
from core_joins import joins
from core_rates import aligned_rates, session_rate, sliding_rates
from core_rollup import rollup
from figures import Stopwatch, as_json, show

MEASUREMENTS = {
    measure.__name__: measure
    for measure in (recompute, close_latency, state_sizes, aligned_rates, session_rate, sliding_rates, rollup, joins)
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the core against its goals.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--cpu", action="store_true", help="count processor time, on a machine with other work")
    parser.add_argument("--only", choices=MEASUREMENTS, help="one measurement instead of all")
    arguments = parser.parse_args()
    if arguments.cpu:
        Stopwatch.count_cpu_time()
    begin, used = time.perf_counter(), time.process_time()
    names = [arguments.only] if arguments.only else list(MEASUREMENTS)
    figures = [figure for name in names for figure in MEASUREMENTS[name]()]
    if arguments.json:
        print(as_json(figures))
    else:
        took, had = time.perf_counter() - begin, time.process_time() - used
        clock = "processor time" if arguments.cpu else "wall time"
        show(f"windowpane core, {clock}; the run took {took:.0f} s and had a core for {had:.0f} s of them", figures)


if __name__ == "__main__":
    main()
