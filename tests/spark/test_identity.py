"""Sinks that ask for it receive the identity of the emission of each row, however the query is laid out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Query, finish
from windowpane.connectors.sinks import IDENTITY, MemorySink, SinkBatch
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

SCHEMA = "ts BIGINT, k STRING, x DOUBLE"
ROWS: list[dict[str, Any]] = [
    {"ts": 1000, "k": "a", "x": -0.0},
    {"ts": 1001, "k": "A", "x": 0.0},
    {"ts": 1000, "k": None, "x": None},
]


class IdentitySink(MemorySink):
    """Keeps rows with their identity."""

    wants_identity = True

    def write(self, batch: SinkBatch) -> None:
        self.identified = batch.identified
        super().write(batch)


def run(spark: SparkSession, folder: Path, sql: str) -> tuple[IdentitySink, MemorySink]:
    job = Job(folder, Query(sql, {"s": SCHEMA}))
    job.feed(ROWS)
    settings = job.settings()
    settings["transforms"]["q"]["sink"] = ["results", "identified"]
    settings["sinks"]["identified"] = {"format": "memory"}
    identified = IdentitySink("identified")
    given = {"results": job.results, "dlq": job.dlq, "identified": identified}
    finish(Pipeline.from_dict(settings, folder, sinks=given).start(spark), drain=True)
    return identified, job.results


def test_groups_are_named_the_same_however_the_query_is_laid_out(spark: SparkSession, tmp_path: Path) -> None:
    window = "tumblingwindow('ss', 10)"
    plain = f"SELECT count(*) AS n FROM s GROUP BY {window}, upper(k), x, timestamp_millis(ts) EMIT ON UPDATE"
    spaced = plain.replace("upper(k)", "UPPER( k )").replace("count(*)", "COUNT( * )")
    identified, results = run(spark, tmp_path / "plain", plain)
    again, _ = run(spark, tmp_path / "spaced", spaced)
    assert {row["_window_id"] for row in identified.rows} == {row["_window_id"] for row in again.rows}
    keys = {row["_group_key"] for row in identified.rows}
    assert keys == {row["_group_key"] for row in again.rows}
    assert [list(json.loads(key).values()) for key in sorted(keys)] == [
        ["A", 0.0, "1970-01-01T00:00:01.000000Z"],
        ["A", 0.0, "1970-01-01T00:00:01.001000Z"],
        [None, None, "1970-01-01T00:00:01.000000Z"],
    ]
    assert "-0.0" not in "".join(keys)
    emissions = [(row["_group_key"], row["_emit_epoch"], row["_is_final"]) for row in identified.rows]
    assert sorted(emissions) == sorted([*((key, 1, False) for key in keys), *((key, 2, True) for key in keys)])
    assert [row.asDict() for row in results.rows] == [{"n": 1}] * 6, "a sink that does not ask has the query's columns"


def test_rows_that_are_not_grouped_have_no_identity(spark: SparkSession, tmp_path: Path) -> None:
    identified, _ = run(spark, tmp_path, "SELECT k, window_start FROM s GROUP BY tumblingwindow('ss', 10)")
    assert not identified.identified
    assert len(identified.rows) == len(ROWS)
    assert not set(identified.rows[0].asDict()) & set(IDENTITY)
