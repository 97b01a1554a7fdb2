"""What a small micro-batch costs operators that keep rows, beside many kept rows; without Spark.

    python -m bench.kept_rows [--rows 5000000] [--cases sliding,release] [--batches 20]

Batches of 250,000 rows fill an hour of event time; then come micro-batches of 1,000 rows. Each of them makes new
operators, loads their state, feeds them, and saves. Printed are seconds of processor time (median and slowest), and
entries and megabytes that are read and written (medians).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.frames import BatchEnd, Clock, Frame, Rows, Watermark
from windowpane.core.graph import Graph
from windowpane.core.operators.aggregation import Aggregation
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.count_window import CountWindow
from windowpane.core.operators.row_windows import AlignedRowWindow
from windowpane.core.operators.session_row_window import SessionRowWindow
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.operators.sliding import SlidingAggregation
from windowpane.core.operators.state_window import StateWindow
from windowpane.core.operators.watermark import EventtimeWatermark
from windowpane.core.side import Key
from windowpane.core.state import EntryMap
from windowpane.core.windows import Count, Session, Sliding, State, Tumbling

HOUR_US = 3_600_000_000
BEGIN_US = 1_700_002_800_000_000
FILL_ROWS, SMALL_ROWS = 250_000, 1_000
KEYS = (Key("_k0", "k"),)
SCHEMA = pa.schema([
    (c.EVENT_TIME, pa.int64()), (c.ARRIVAL, pa.int64()), ("_k0", pa.int64()), ("_a0_0", pa.int64()),
    (c.OPEN, pa.bool_()), (c.EMIT, pa.bool_()),
])  # fmt: skip


def aggregator(function: str = "sum") -> Aggregator:
    return Aggregator([Call("_a0", function, ("_a0_0",))], ["_k0"], SCHEMA)


@dataclass(frozen=True)
class Case:
    """Operators, and the stream that fills them."""

    make: Callable[[], list[Operator]]
    keys: int = 1_000
    stragglers: float = 0.0
    """The part of the rows that come up to an hour late."""
    lag_us: int = 0


def sliding() -> list[Operator]:
    spec = Sliding(HOUR_US)
    return [SlidingAggregation(spec, ["_k0"], KEYS, aggregator(), conditional=False)]


CASES = {
    "release": Case(lambda: [EventtimeWatermark(ordered=True, data_driven=False)], stragglers=0.1, lag_us=HOUR_US),
    "sliding, 1,000 keys": Case(sliding),
    "sliding, 1 M keys": Case(sliding, keys=1_000_000),
    "tumbling rows": Case(
        lambda: [AlignedRowWindow(AlignedPlan(Tumbling(1000 * HOUR_US), KEYS)), Aggregation(KEYS, aggregator("median"))]
    ),
    "session rows": Case(
        lambda: [SessionRowWindow(SessionPlan(Session(HOUR_US), KEYS)), Aggregation(KEYS, aggregator("median"))],
        keys=1_000_000,
    ),
    "count": Case(lambda: [CountWindow(Count(100, 100), ["_k0"])], keys=100_000),
    "state": Case(lambda: [StateWindow(State(), ["_k0"])], keys=1_000_000),
}


class CountingEntries(EntryMap):
    """Entries that note what is read."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        super().__init__(stored)
        self.seen: dict[str, int] = {}

    def read(self, name: str) -> bytes:
        data = super().read(name)
        self.seen[name] = len(data)
        return data


@dataclass
class Figures:
    """One value per micro-batch."""

    seconds: list[float] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)


def batches(case: Case, rows: int, small: int) -> Iterator[pa.RecordBatch]:
    """Rows that come at an even rate, `rows` an hour."""
    random = np.random.default_rng(7)
    sizes = [FILL_ROWS] * (rows // FILL_ROWS) + [SMALL_ROWS] * small
    first = 0
    for size in sizes:
        number = np.arange(first, first + size)
        ts = BEGIN_US + number * HOUR_US // rows
        late = random.random(size) < case.stragglers
        ts = np.where(late, ts - random.integers(0, HOUR_US, size), ts)
        arrays = [ts, number, random.integers(0, case.keys, size), random.integers(0, 1000, size)]
        marks = random.random((2, size)) < [[0.9], [0.01]]
        yield pa.RecordBatch.from_arrays([*map(pa.array, arrays), *map(pa.array, marks)], schema=SCHEMA)
        first += size


def run(case: Case, rows: int, small: int) -> Figures:
    figures, stored, newest, watermark_us = Figures(), dict[str, bytes](), 0, None
    for number, batch in enumerate(batches(case, rows, small)):
        newest = max(newest, int(batch.column(c.EVENT_TIME).to_numpy().max()))
        before, watermark_us = watermark_us, newest - case.lag_us
        frames: list[Frame] = [Clock(number), *([] if before is None else [Watermark(before)]), Rows(batch)]
        entries = CountingEntries(stored)
        began = time.process_time()
        graph = Graph.linear(case.make())
        graph.load(entries)
        graph.feed("in", [*frames, Watermark(watermark_us), BatchEnd()])
        graph.save(entries)
        seconds = time.process_time() - began
        if batch.num_rows == SMALL_ROWS:
            written = [len(data) for data in entries.changes.values() if data is not None]
            figures.seconds.append(seconds)
            figures.read.append((len(entries.seen), sum(entries.seen.values())))
            figures.written.append((len(written), sum(written)))
        for name, data in entries.changes.items():
            if data is None:
                del stored[name]
            else:
                stored[name] = data
    return figures


def medians(pairs: list[tuple[int, int]]) -> str:
    entries, size = (statistics.median(values) for values in zip(*pairs, strict=True))
    return f"{entries:.0f}, {size / 1e6:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--cases", default="", help="parts of the names of cases")
    arguments = parser.parse_args()
    table = Table("case", "s", "slowest", "read: entries, MB", "written: entries, MB")
    for name, case in CASES.items():
        if any(part in name for part in arguments.cases.split(",")):
            found = run(case, arguments.rows, arguments.batches)
            table.add_row(
                name, f"{statistics.median(found.seconds):.3f}", f"{max(found.seconds):.3f}",
                medians(found.read), medians(found.written),
            )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
