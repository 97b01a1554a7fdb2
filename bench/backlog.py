"""A backlog of parquet files worked off in batches of a fixed size, and in batches that grow: time, batches, changes.

    python -m bench.backlog [--rows 20000000] [--start-mb 8] [--target 5s]

A run with the first figures of a session would measure its warm-up, so a shorter run goes before. Results are counted
and must be the same in all runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.discard import Discard
from bench.spark import CASES, FILE_ROWS, settings, write_data
from windowpane.config import SparkSettings
from windowpane.connectors.limits import FILE_BYTES, MEGABYTE
from windowpane.connectors.sinks import SinkBatch
from windowpane.runtime import Pipeline
from windowpane.runtime.resizing import SIZE_FILE
from windowpane.spark.session import create_session


class Counting(Discard):
    """Drops results and counts them."""

    rows = 0

    def write(self, batch: SinkBatch) -> None:
        self.rows += batch.arrow().num_rows


@dataclass(frozen=True)
class Way:
    """`fixed`: a limit in MB that stays. `start`: one that is the first. `target`: batch_target."""

    name: str
    fixed: int | None = None
    start: int | None = None
    target: str = "off"


def run(spark: SparkSession, data: Path, way: Way, checkpoint: Path) -> dict[str, Any]:
    """Drains the backlog; gives what it took."""
    config: Any = settings(CASES[0], data, 1, checkpoint)
    config["streams"]["bids"]["options"] = {"maxBytesPerTrigger": way.fixed * MEGABYTE} if way.fixed else {}
    config["options"]["batch_target"] = way.target
    if way.start:
        (checkpoint / "bench").mkdir(parents=True)
        said = {"scale": way.start * MEGABYTE / FILE_BYTES}
        (checkpoint / "bench" / SIZE_FILE).write_text(json.dumps(said), encoding="utf-8")
    sink = Counting("out")
    started = time.monotonic()
    running = Pipeline.from_dict(config, sinks={"out": sink}).start(spark)
    running.wait()
    seconds = time.monotonic() - started
    running.stop()
    ledger = running.transforms[0].checkpoint.ledger
    entries = [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]
    moving = running.transforms[0].resizing
    return {
        "restart": round(moving.restart_s, 2) if moving and moving.told().get("changed") else None,
        "results": sink.rows, "seconds": seconds, "rows": entries[-1].totals["in_"],
        "batches": [(round(entry.accounting["in_"] / 1e6, 1), round(entry.seconds, 1)) for entry in entries],
    }  # fmt: skip


def main() -> None:
    arguments = _arguments()
    logging.basicConfig(format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("windowpane").setLevel(logging.INFO)
    console = Console()
    spark = create_session(SparkSettings(master="local[2]", config={"spark.driver.memory": "4g"}))
    spark.sparkContext.setLogLevel("OFF")
    start = arguments.start_mb
    ways = [
        Way(f"fixed {start} MB", fixed=start), Way(f"from {start} MB", start=start, target=arguments.target),
        Way("from 256 MB", target=arguments.target), Way("fixed 256 MB"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="windowpane-backlog-") as folder:
        scratch, case = Path(folder), CASES[0]
        write_data(scratch / "warm", 4 * FILE_ROWS, case.keys, case.per_second)
        write_data(scratch / "data", arguments.rows, case.keys, case.per_second)
        size = sum(path.stat().st_size for path in (scratch / "data").iterdir())
        run(spark, scratch / "warm", Way("warm-up", fixed=start), scratch / "warmed")
        found = {}
        for number, way in enumerate(ways):
            found[way.name] = run(spark, scratch / "data", way, scratch / f"state{number}")
            console.print(f"{way.name}: {found[way.name]}")
    if len({each["results"] for each in found.values()}) > 1:
        sys.exit("results differ")
    table = Table(
        title=f"{arguments.rows / 1e6:.0f} M rows, {size / MEGABYTE:.0f} MB, target {arguments.target}",
        title_justify="left",
    )
    for heading in ("limit", "seconds", "M rows/s", "batches", "longest"):
        table.add_column(heading, justify="left" if heading == "limit" else "right")
    for name, each in found.items():
        longest = max(seconds for _, seconds in each["batches"])
        rate = each["rows"] / each["seconds"] / 1e6
        table.add_row(name, f"{each['seconds']:.1f}", f"{rate:.2f}", str(len(each["batches"])), f"{longest:.1f} s")
    console.print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the backlog")
    parser.add_argument("--start-mb", type=int, default=8, help="the low limit that two of the runs begin with")
    parser.add_argument("--target", default="5s", help="batch_target of the runs whose limit moves")
    return parser.parse_args()


if __name__ == "__main__":
    main()
