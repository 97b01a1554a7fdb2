"""What windowpane costs as work grows: rows, keys, overlap, shards and open windows, one at a time."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.nexmark.datasets import write_dataset
from bench.nexmark.engine import FEWEST_BATCHES, MEMORY, PATIENCE_S
from bench.nexmark.generator import BEGIN_MS, COLUMNS, TIME, Shape, chunk
from bench.nexmark.processes import EngineError, execute
from bench.nexmark.settings import file_stream, pipeline
from bench.nexmark.windows import Window

FILE_ROWS = 500_000
WARM_UP_ROWS = 4 * FILE_ROWS
SINGLE_ROWS = 4
"""Files of one row at the end, of which the last closes all windows."""


@dataclass(frozen=True)
class Point:
    """One run. `lag_s`: how far the watermark stays behind, and so how many windows are open."""

    dimension: str
    value: int
    rows: int
    window: Window = field(default_factory=lambda: Window("tumbling", 10))
    shape: Shape = field(default_factory=Shape)
    lag_s: int = 2
    shards: int = 2

    @property
    def batch_files(self) -> int:
        """Of a micro-batch: four, or fewer where that would leave no steady part."""
        return max(1, min(4, self.rows // FILE_ROWS // FEWEST_BATCHES))


def points(rows: int, most_rows: int) -> dict[str, list[Point]]:
    """`rows` where something else grows; rows themselves grow up to `most_rows`."""
    shape, slow = Shape(), Shape(per_second=2_000)
    sizes = [size for size in (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000) if size <= most_rows]
    return {
        "rows": [Point("rows", size, size) for size in sizes],
        "keys": [
            Point("keys", keys, rows, shape=replace(shape, keys=keys)) for keys in (1_000, 10_000, 100_000, 1_000_000)
        ],
        "overlap": [
            Point("overlap", overlap, rows, Window("hopping", 60, 60 // overlap)) for overlap in (1, 6, 12, 30, 60)
        ],
        "shards": [Point("shards", shards, rows, shards=shards) for shards in (1, 2, 4, 8)],
        "open windows": [
            Point("open windows", windows, rows, Window("tumbling", 1), slow, lag_s=max(2, windows))
            for windows in (1, 10, 100, 1_000)
        ],
    }


def measure_point(point: Point) -> dict[str, Any]:
    """The figures of one run, or a note why there are none."""
    known = {"dimension": point.dimension, "value": point.value, "rows": point.rows}
    with tempfile.TemporaryDirectory(prefix="windowpane-scaling-") as scratch:
        folder = Path(scratch)
        data = write_dataset(folder, ("bids",), point.shape, point.rows, file_rows=FILE_ROWS)
        warm_up = write_dataset(folder / "warm-up", ("bids",), point.shape, WARM_UP_ROWS, file_rows=FILE_ROWS)
        task = {
            "pipeline": _pipeline(point, data.folders["bids"], folder / "checkpoint", "as_fast_as_possible"),
            "warm_up": _pipeline(point, warm_up.folders["bids"], folder / "warm-up-checkpoint", "available_now"),
            "folder": str(data.folders["bids"]), "rows": data.rows, "memory": MEMORY,
            "single_rows": [str(path) for path in _single_rows(point, data.rows, folder)],
        }  # fmt: skip
        try:
            command = [sys.executable, "-m", "bench.nexmark.scaling_job"]
            found, usage = execute(command, task, seconds=PATIENCE_S, environment={"SPARK_LOCAL_DIRS": scratch})
        except EngineError as failed:
            return known | {"note": failed.reason()}
    if not found["rate"]:
        return known | {"note": "all rows were taken in one batch: too few for a rate"}
    return {**known, **found, "peak_mb": usage.peak_mb, "others": usage.others}


def _single_rows(point: Point, rows: int, folder: Path) -> Iterator[Path]:
    """Rows at the time of the last bid, which move nothing, and one an hour later."""
    last_ms = BEGIN_MS + rows * 1000 // point.shape.per_second
    for number in range(SINGLE_ROWS):
        time_ms = last_ms + (3_600_000 if number == SINGLE_ROWS - 1 else 0)
        row = chunk("bids", point.shape, rows + number, 1)
        row = row.set_column(row.column_names.index("ts"), "ts", pa.array(np.array([time_ms * 1000]), TIME))
        path = folder / f"single-{number}.parquet"
        pq.write_table(row, path)
        yield path


def _pipeline(point: Point, folder: Path, checkpoint: Path, trigger: str) -> dict[str, Any]:
    bids = file_stream(str(folder), COLUMNS["bids"], files=point.batch_files)
    return pipeline(
        point.window.windowpane(), {"bids": bids}, lag=f"{point.lag_s}s", checkpoint=str(checkpoint),
        shards=point.shards, trigger=trigger,
    )  # fmt: skip
