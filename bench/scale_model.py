"""The model of docs/scale.md: what a micro-batch costs, by its size and layout. `bench.scale` measures its constants.

The tables of the page are made here, from the figures that `bench.scale` has recorded in scale.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RECORD, PAGE = HERE / "scale.json", HERE.parent / "docs" / "scale.md"
SCHEDULE = 0.001
"""Seconds of Spark's driver for each task that it starts, one after the other. Not measured: two cores hide it."""
STATE_BYTES = 46
"""Of a group in each level of the state, with three aggregates and a BIGINT key: `bench.state`, 10 M groups."""
TOLERANCE = 0.25
PARTS = {"fixed": "fixed", "task": "tasks", "shard": "shards", "row": "rows", "partial": "partial results"}
"""Constants that are fitted to measurements of micro-batches, with the part of a micro-batch that each is for."""
_BLOCK = "<!-- scale: {name} -->\n\n{text}\n\n<!-- end -->"


@dataclass(frozen=True)
class Constants:
    """Seconds on one core; bytes where the name says so."""

    fixed: float
    task: float
    shard: float
    row: float
    partial: float
    message: float
    message_bytes: float
    partial_bytes: float
    report_bytes: float

    def parts(self, size: Size, cores: int) -> dict[str, float]:
        """Seconds of a micro-batch by what they are spent on."""
        return {
            "fixed": self.fixed,
            "scheduling": SCHEDULE * (size.tasks + size.shards),
            "tasks": self.task * size.tasks / cores,
            "shards": self.shard * size.shards / cores,
            "messages": self.message * size.tasks * size.shards / cores,
            "rows": self.row * size.rows / cores,
            "partial results": self.partial * size.partials / cores,
        }

    def seconds(self, size: Size, cores: int) -> float:
        return sum(self.parts(size, cores).values())


@dataclass(frozen=True)
class Size:
    """Of a micro-batch: `partials` are the partial results that all tasks send to the shards."""

    tasks: int
    shards: int
    rows: float
    partials: float


@dataclass(frozen=True)
class Point:
    """A measurement. `fitted`: the constants were fitted to it and others; if not, it is a prediction."""

    size: Size
    seconds: float
    fitted: bool = False


@dataclass(frozen=True)
class Record:
    constants: Constants
    points: Sequence[Point]
    machine: str
    cores: int = 2

    def save(self) -> None:
        RECORD.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls) -> Record:
        found = json.loads(RECORD.read_text(encoding="utf-8"))
        points = [Point(Size(**each["size"]), each["seconds"], each["fitted"]) for each in found["points"]]
        return cls(Constants(**found["constants"]), points, found["machine"], found["cores"])

    def misses(self) -> list[Point]:
        """Predictions that are off by more than `TOLERANCE`."""
        return [point for point in self.points if not point.fitted and abs(self.error(point)) > TOLERANCE]

    def error(self, point: Point) -> float:
        return self.constants.seconds(point.size, self.cores) / point.seconds - 1


def fit(points: Sequence[Point], message: float, cores: int) -> Constants:
    """The constants of time that are off by the least from these measurements, in parts of each; 0 for bytes."""
    known = Constants(0.0, 0.0, 0.0, 0.0, 0.0, message, 0.0, 0.0, 0.0)
    weights = np.array([1 / point.seconds for point in points])
    left = weights * [point.seconds - known.seconds(point.size, cores) for point in points]
    names = list(PARTS)
    while True:
        parts = [replace(known, **dict.fromkeys(names, 1.0)).parts(point.size, cores) for point in points]
        factors = np.array([[each[PARTS[name]] for name in names] for each in parts]) * weights[:, None]
        found = dict(zip(names, np.linalg.lstsq(factors, left)[0].tolist(), strict=True))
        names = [name for name in names if found[name] >= 0]
        if len(names) == len(found):
            return replace(known, **found)


LARGE = Size(tasks=400, shards=400, rows=167e6, partials=160e6)
LARGE_CORES = 400


def constants_table(record: Record) -> str:
    made = record.constants
    shown = {
        "`fixed`": (f"{made.fixed:.3f} s", "fitted; 1,000 rows in 1 task, 2 shards tell most about it"),
        "`task`": (f"{made.task * 1e3:.0f} ms", "fitted; the same with 8 tasks"),
        "`shard`": (f"{made.shard * 1e3:.0f} ms", "fitted; the same with 8 shards"),
        "`row`": (f"{made.row * 1e9:.0f} ns", "fitted; 4 M rows of 1,000 groups, 2 tasks and shards"),
        "`partial`": (f"{made.partial * 1e6:.2f} µs", "fitted; 1 M rows of 100,000 and of 1 M groups"),
        "`message`": (f"{made.message * 1e3:.2f} ms", "64 × 64 against 1 × 64 and 64 × 1, without Spark"),
        "`schedule`": (f"{SCHEDULE * 1e3:.0f} ms", "not measured: Spark starts about 1,000 tasks per second"),
    }
    rows = [(name, value, source) for name, (value, source) in shown.items()]
    return _table(("constant", "value", "measured with"), rows, "l r l")


def predictions_table(record: Record) -> str:
    rows = []
    for point in record.points:
        size, model = point.size, record.constants.seconds(point.size, record.cores)
        error = f"{record.error(point):+.0%}".replace("-", "−") + (", fitted" if point.fitted else "")
        rows.append((
            f"{size.tasks} × {size.shards}", f"{size.rows:,.0f}", f"{size.partials:,.0f}", f"{model:.2f} s",
            f"{point.seconds:.2f} s", error,
        ))  # fmt: skip
    return _table(("tasks × shards", "rows", "partial results", "model", "measured", "error"), rows, "l r r r r r")


def large_table(record: Record) -> str:
    parts = record.constants.parts(LARGE, LARGE_CORES)
    rows = [(name, f"{seconds:.2f}") for name, seconds in parts.items()]
    return _table(("part", "seconds"), [*rows, ("**together**, of 10 s", f"**{sum(parts.values()):.1f}**")], "l r")


def bytes_table(record: Record) -> str:
    made = record.constants
    rows = [
        ("shuffled", f"{made.partial_bytes:.0f} B × partial results + {made.message_bytes / 1e3:.1f} kB × T × S"),
        ("to the driver", f"{made.report_bytes / 1e3:.1f} kB × (T + S), and results up to 16 MB; others are in files"),
        ("state written", f"{STATE_BYTES} B × groups × (1 + levels): levels are log₈ of a shard's groups ÷ 65,536"),
        ("ledger", "1 kB + 4 B × S × shuffles, one file"),
    ]
    return _table(("bytes", "per micro-batch"), rows, "l l")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    marks = ["---:" if side == "r" else "---" for side in sides.split()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, marks, *rows))


def filled(page: str, record: Record) -> str:
    """The page with the tables of a record, and the machine it was made on."""
    tables = {
        "constants": constants_table(record), "predictions": predictions_table(record),
        "bytes": bytes_table(record), "large": large_table(record), "machine": f"Measured on {record.machine}.",
    }  # fmt: skip
    for name, text in tables.items():
        block = re.compile(re.escape(f"<!-- scale: {name} -->") + r".*?<!-- end -->", re.DOTALL)
        found = block.search(page)
        if found is None:
            raise ValueError(f"docs/scale.md has no block {name}")
        page = page[: found.start()] + _BLOCK.format(name=name, text=text) + page[found.end() :]
    return page


def fill_page() -> None:
    """Fill in the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), Record.load()), encoding="utf-8")


if __name__ == "__main__":
    fill_page()
