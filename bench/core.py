"""Measure the core side by side: each figure against its goal, and rates against one pyarrow group_by.

`python bench/core.py [--json] [--only NAME]`. Results are checked against an independent computation before any time
is taken. See README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import time

from core_closing import close_latency, recompute, state_sizes
from core_rates import aligned_rates, session_rate, sliding_rates
from figures import as_json, show

MEASUREMENTS = {
    measure.__name__: measure
    for measure in (recompute, close_latency, state_sizes, aligned_rates, session_rate, sliding_rates)
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the core against its goals.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", choices=MEASUREMENTS, help="one measurement instead of all")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    names = [arguments.only] if arguments.only else list(MEASUREMENTS)
    figures = [figure for name in names for figure in MEASUREMENTS[name]()]
    if arguments.json:
        print(as_json(figures))
    else:
        show(f"windowpane core, measured in {time.perf_counter() - begin:.0f} s", figures)


if __name__ == "__main__":
    main()
