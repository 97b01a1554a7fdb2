"""Golden files as backfills: all rows of a file as one batch job on Spark, and as one stream in the harness that ends
before its watermark has moved.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from windowpane.connectors.sinks import MemorySink
from windowpane.core.time_range import TimeRange
from windowpane.runtime import golden_spark
from windowpane.runtime.backfilling import Backfill, Backfilled
from windowpane.runtime.pipeline import Pipeline
from windowpane.testing.golden.model import Golden
from windowpane.testing.golden.rows import to_inputs
from windowpane.testing.harness import Harness

EVER = TimeRange(-(2**60), 2**60)
NOT_COMPARED = ("emit_epoch", "e", "epoch")
"""How often a window was emitted before depends on the micro-batches of a stream."""


def as_backfill(golden: Golden, spark: SparkSession, folder: Path) -> tuple[Counter[str], Backfilled]:
    """The results of a file's rows in a batch job, and its report."""
    golden_spark._write_tables(golden, folder)
    for number, step in enumerate(each for each in golden.steps if each.verb == "push"):
        golden_spark._write_push(golden, folder, step, number)
    results = MemorySink("results")
    pipeline = Pipeline.from_dict(golden_spark._settings(golden), folder, sinks={"results": results})
    (done,) = Backfill(pipeline, EVER).carry_out(spark)
    return _comparable([row.asDict(recursive=True) for row in results.rows]), done


def as_ended_stream(golden: Golden) -> Counter[str]:
    """What the harness gives for the same rows if the watermark moves only at the end."""
    harness = Harness(
        golden.sql, streams={name: each.settings for name, each in golden.streams.items()}, options=golden.options,
        transform=golden.transform, tables=golden.tables, watermark="manual", now=golden.now_us or None,
    )  # fmt: skip
    early = list[dict[str, Any]]()
    for step in (each for each in golden.steps if each.verb == "push"):
        name = step.stream or next(iter(golden.streams))
        rows = to_inputs(step.rows, golden.streams[name].columns, golden.eventtime(name))
        early += harness.push(rows, stream=name).rows
    last = harness.end().rows
    updates = "EMIT ON UPDATE" in golden.sql.upper() or "EMIT EVERY" in golden.sql.upper()
    return _comparable(last if updates else [*early, *last])


def _comparable(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(
        str({name: _plain(value) for name, value in row.items() if name not in NOT_COMPARED}) for row in rows
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
