"""Sliding, count and state windows on real Spark, stopped in the middle of what they wait for and started again.

Every query is fed two micro-batches, ends, is started anew with two more, and is drained: the rows are those of the
harness, micro-batch by micro-batch, whatever the number of shards.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, assert_same, in_harness, run_together
from tests.spark.test_queries import BATCHES, LAG, SCHEMA

pytestmark = pytest.mark.spark

QUERIES = {
    "lookahead": "SELECT k, count(*) AS n, max(v) AS m, trigger_time, window_start, window_end, emit_epoch "
    "FROM s GROUP BY slidingwindow('ss', 2, 3) OVER (PARTITION BY k)",
    "over the stream": "SELECT k, sum(v) AS s, trigger_time, emit_epoch FROM s "
    "GROUP BY slidingwindow('ss', 2, 2) OVER (WHEN v > 10), k",
    "not incremental": "SELECT k, median(v) AS m, collect_list(v) AS c, trigger_time FROM s "
    "GROUP BY slidingwindow('ss', 3) OVER (PARTITION BY k)",
    "rows of each": "SELECT ts, k, v, trigger_time FROM s GROUP BY slidingwindow('ss', 1, 1)",
    "count with a step": "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY countwindow(3, 2) OVER (PARTITION BY k)",
    "state": "SELECT count(*) AS n, min(v) AS l, window_start FROM s GROUP BY statewindow(v > 30)",
}
SHARDS = {"over the stream": (1, 3)}


def stopped_in_the_middle(spark: SparkSession, jobs: list[Job]) -> list[Outcome]:
    half = len(BATCHES) // 2
    for job in jobs:
        job.feed_all(BATCHES[:half])
    run_together(spark, jobs)
    for job in jobs:
        job.feed_all(BATCHES[half:])
    return run_together(spark, jobs, drain=True)


def test_stopped_started_again_and_drained(spark: SparkSession, tmp_path: Path) -> None:
    names = [(name, shards) for name in QUERIES for shards in SHARDS.get(name, (2,))]
    queries = {name: Query(sql, {"s": SCHEMA}, LAG) for name, sql in QUERIES.items()}
    jobs = [Job(tmp_path / f"{number}", queries[name], shards=shards) for number, (name, shards) in enumerate(names)]
    for (name, shards), outcome in zip(names, stopped_in_the_middle(spark, jobs), strict=True):
        wanted = in_harness(queries[name], BATCHES, drain=True)
        assert wanted.all_rows, name
        try:
            assert_same(outcome, wanted)
        except AssertionError as differing:
            raise AssertionError(f"{name} with {shards} shards: {differing}") from differing
        assert outcome.entries[-1].totals["in_"] == sum(map(len, BATCHES))
