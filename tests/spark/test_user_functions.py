"""[functions] of pipeline.toml on Spark: shipped to the workers by value, what raises is an error row, restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.plan.test_functions import PIPELINE, folder
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark
__all__ = ["folder"]  # a fixture

FIRST = [("00:00:01", "x", 50), ("00:00:02", "x", 0), ("00:00:03", "y", 7), ("00:00:04", "bad", 25)]
SECOND = [("00:00:05", "x", 200), ("00:00:20", "z", 10)]


def write(folder: Path, name: str, rows: list[tuple[str, str, int]]) -> None:
    lines = [json.dumps({"ts": f"2024-01-01T{at}Z", "k": k, "price": price}) for at, k, price in rows]
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.rglob("*.json") for line in path.read_text().splitlines()]


def test_functions_and_aggregates_with_a_restart(folder: Path, spark: SparkSession) -> None:
    side = '[transforms.t.side_output.error]\nsink = "errors"\n\n[sinks.errors]\nformat = "json"\npath = "errors"\n'
    text = PIPELINE.replace('checkpoint = "state"', 'checkpoint = "state"\ntrigger = "available_now"\nshards = 2')
    (folder / "pipeline.toml").write_text(text + side)
    for name, rows in (("1.json", FIRST), ("2.json", SECOND)):
        write(folder, name, rows)
        running = Pipeline.from_toml(folder / "pipeline.toml").start(spark)
        running.wait()
        running.stop()
    assert [{name: row[name] for name in ("k", "total", "top", "l")} for row in read(folder / "out")] == [
        {"k": "x", "total": 5.0, "top": 400, "l": "x"}
    ]
    records = [
        json.loads(line) for path in (folder / "errors").rglob("*.json") for line in path.read_text().splitlines()
    ]
    assert sorted((each["reason"], each["group_key"]["k"]) for each in records) == [
        ("evaluation_error", "bad"), ("evaluation_error", "x"), ("evaluation_error", "y"),
    ]  # fmt: skip
