"""Files of equal modification time are read in the order of their paths, in a micro-batch and from one to the next."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import FIRST_FILE_TIME, finish
from windowpane.connectors.sinks import MemorySink
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

NAMES = [f"part={part}/{name}.json" for part in (1, 2) for name in ("10", "9", "a b%20c", "b")]
"""Sorted as text, and in an order that no file system lists them in by chance."""
QUERIES = {
    "folded": "SELECT first(v) AS a, last(v) AS z, count(*) AS n FROM many GROUP BY tumblingwindow('ss', 60)",
    "rows": "SELECT collect_list(v) AS all FROM many GROUP BY tumblingwindow('ss', 60)",
    "batches": "SELECT collect_list(v) AS all FROM one GROUP BY tumblingwindow('ss', 60)",
    "counted": "SELECT collect_list(v) AS all FROM many GROUP BY countwindow(3)",
}


def feed(folder: Path) -> list[int]:
    """The later a file is in order the larger it is, as Spark reads the largest files first. Gives all values."""
    values: dict[str, list[int]] = {}
    for number, name in enumerate(NAMES):
        values[name] = [100 * number + row for row in range(1 + number)]
    written = list(NAMES)
    random.Random(5).shuffle(written)
    for name in written:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f'{{"ts": 1000, "v": {value}}}\n' for value in values[name]))
        os.utime(path, (FIRST_FILE_TIME, FIRST_FILE_TIME))
    newest = folder / "part=0" / "0.json"  # first by name, last by time
    newest.parent.mkdir()
    newest.write_text('{"ts": 1000, "v": -1}\n')
    os.utime(newest, (FIRST_FILE_TIME + 1, FIRST_FILE_TIME + 1))
    return [value for name in NAMES for value in values[name]] + [-1]


def stream(folder: Path, reader: str, **options: Any) -> dict[str, Any]:
    return {
        "format": "json", "path": str(folder), "schema": "ts BIGINT, v BIGINT, part INT", "scan": reader,
        "options": options, "eventtime": {"column": "ts", "type": "unixtimestamp_ms", "strict": True},
    }  # fmt: skip


@pytest.mark.parametrize("reader", ["columnar", "spark"])
def test_files_of_equal_time_are_read_by_path(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    values = feed(tmp_path / "in")
    sinks = {name: MemorySink(name) for name in QUERIES}
    pipeline = Pipeline.from_dict(
        {
            "streams": {
                "many": stream(tmp_path / "in", reader), "one": stream(tmp_path / "in", reader, maxFilesPerTrigger=1)
            },
            "options": {
                "eventtime": {"enabled": True, "late_tolerance": "1h"}, "trigger": "available_now", "shards": 2,
                "checkpoint": str(tmp_path / "state"),
            },
            "transforms": {name: {"sql": sql, "sink": name} for name, sql in QUERIES.items()},
            "sinks": {name: {"format": "memory"} for name in QUERIES},
        },
        sinks=sinks,
    )  # fmt: skip
    assert [plan.scan is not None for plan in pipeline.plans] == [reader == "columnar"] * len(QUERIES)
    finish(pipeline.start(spark), drain=True)
    found = {name: [row.asDict() for row in sink.rows] for name, sink in sinks.items()}
    assert found["folded"] == [{"a": values[0], "z": -1, "n": len(values)}]
    assert found["rows"] == [{"all": values}]
    assert found["batches"] == [{"all": values}]
    chunks = [values[low : low + 3] for low in range(0, len(values), 3)]
    assert [row["all"] for row in found["counted"]] == chunks
    ledger = pipeline.checkpoint(pipeline.plans[2]).ledger
    assert [getattr(ledger.read(batch), "arrivals", None) for batch in ledger.batch_ids()][-1] == len(values)
