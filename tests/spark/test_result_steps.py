"""Window functions, DISTINCT and grouping over results on real Spark: the same rows and side rows as in the harness."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, assert_same, in_harness, run_together
from tests.spark.result_queries import QUERIES, SCHEMA
from windowpane.spark import overflow

pytestmark = pytest.mark.spark

LAG = {"eventtime.late_tolerance": "2s"}


def made_rows(seed: int, count: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "ts": number * 200 - rng.randrange(2000),
            "k": rng.choice([None, "a", "b", "ä", "zz"]),
            "g": rng.choice([None, 1, 2, 3]),
            "v": rng.randrange(-5, 50),
            "x": rng.choice([None, 0.0, -1.5, float("nan"), float("inf")]),
            "d": rng.choice([None, 1, 2]),
        }
        for number in range(count)
    ]


BATCHES = [made_rows(7, 120)[start : start + 40] for start in range(0, 120, 40)]


def query(name: str) -> Query:
    return Query(QUERIES[name], {"s": SCHEMA}, LAG)


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    jobs = {name: Job(tmp_path_factory.mktemp(name), query(name)).feed_all(BATCHES) for name in QUERIES}
    return dict(zip(jobs, run_together(spark, list(jobs.values()), drain=True), strict=True))


@pytest.mark.parametrize("name", QUERIES)
def test_results_are_those_of_the_harness(outcomes: dict[str, Outcome], name: str) -> None:
    assert_same(outcomes[name], in_harness(query(name), BATCHES, drain=True))


def test_large_results_and_a_restart(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results in files instead of the driver's memory, and a second start in the middle, change nothing."""
    name = "qualify"
    monkeypatch.setattr(overflow, "DRIVER_BYTES", 1)
    job = Job(tmp_path, query(name)).feed_all(BATCHES[:2])
    job.run(spark)
    job.feed(BATCHES[2])
    assert_same(job.run(spark, drain=True), in_harness(query(name), BATCHES, drain=True))
