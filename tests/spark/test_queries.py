"""Queries of every kind on real Spark: the same rows and side rows as in the harness, micro-batch by micro-batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, assert_same, in_harness, run_together
from windowpane.spark import overflow

pytestmark = pytest.mark.spark

SCHEMA = "ts BIGINT, k STRING, v BIGINT, x DOUBLE"
LAG = {"eventtime.late_tolerance": "2s"}


def made_rows(seed: int, count: int, *, keys: int = 3, spread_ms: int = 6000) -> list[dict[str, Any]]:
    """Rows out of order, some of them late."""
    rng = random.Random(seed)
    return [
        {
            "ts": number * 400 - rng.randrange(spread_ms),
            "k": rng.choice([None, *(f"k{each}" for each in range(keys))]),
            "v": rng.randrange(-5, 50),
            "x": rng.choice([None, rng.random(), 1e9]),
        }
        for number in range(count)
    ]


BATCHES = [made_rows(seed, 40)[10 * seed : 10 * seed + 10] for seed in range(4)]
QUERIES = {
    "tumbling": "SELECT k, count(*) AS n, sum(v) AS s, avg(x) AS a, window_start, window_end FROM s "
    "GROUP BY tumblingwindow('ss', 3), k",
    "hopping": "SELECT k, max(v) AS m, min(v) AS l, window_start FROM s GROUP BY hoppingwindow('ss', 6, 2), k",
    "gaps": "SELECT k, count(*) AS n, window_start FROM s GROUP BY k "
    "WINDOW HOPPING (SIZE 700 ms, SLIDE 1000 ms, OFFSET 300 ms)",
    "session": "SELECT k, count(*) AS n, window_start, window_end FROM s GROUP BY sessionwindow('ss', 2), k",
    "filtered": "SELECT k, count(*) AS n FROM s WHERE v > 10 GROUP BY tumblingwindow('ss', 3), k",
    "having": "SELECT k, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 3), k HAVING sum(v) > 30",
    "top": "SELECT k, sum(v) AS s, window_start FROM s GROUP BY tumblingwindow('ss', 5), k ORDER BY s DESC, k LIMIT 2",
    "update": "SELECT k, count(*) AS n, window_start, emit_epoch, is_final FROM s GROUP BY tumblingwindow('ss', 3), k "
    "EMIT ON UPDATE",
    "rows": "SELECT ts, k, v, window_start FROM s GROUP BY tumblingwindow('ss', 3)",
    "plain": "SELECT ts, k, v + 1 AS w FROM s WHERE v > 0",
    "sliding": "SELECT k, count(*) AS n, sum(v) AS s, trigger_time FROM s GROUP BY slidingwindow('ss', 3), k",
    "sliding_partitioned": "SELECT k, sum(v) AS s, trigger_time FROM s "
    "GROUP BY slidingwindow('ss', 3, 1) OVER (PARTITION BY k), k",
    "count": "SELECT count(*) AS n, sum(v) AS s FROM s GROUP BY countwindow(4)",
    "count_partitioned": "SELECT k, sum(v) AS s FROM s GROUP BY countwindow(3) OVER (PARTITION BY k), k",
    "state": "SELECT k, count(*) AS n FROM s GROUP BY statewindow(v > 20, v < 5) OVER (PARTITION BY k), k",
    "times": "SELECT timestamp_millis(ts) AS at, max(timestamp_millis(ts + v)) AS late, count(*) AS n FROM s "
    "GROUP BY tumblingwindow('ss', 3), timestamp_millis(ts)",
    "values": "SELECT collect_list(v) AS c, first(k) AS f, last(v) AS l, count(DISTINCT k) AS d FROM s "
    "GROUP BY tumblingwindow('ss', 4)",
}


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    jobs = {
        name: Job(tmp_path_factory.mktemp(name), Query(sql, {"s": SCHEMA}, LAG)).feed_all(BATCHES)
        for name, sql in QUERIES.items()
    }
    return dict(zip(jobs, run_together(spark, list(jobs.values()), drain=True), strict=True))


@pytest.mark.parametrize("name", QUERIES)
def test_query_gives_what_the_harness_gives(outcomes: dict[str, Outcome], name: str) -> None:
    assert_same(outcomes[name], in_harness(Query(QUERIES[name], {"s": SCHEMA}, LAG), BATCHES, drain=True))


@pytest.mark.parametrize("name", QUERIES)
def test_every_batch_adds_up_and_is_in_the_ledger(outcomes: dict[str, Outcome], name: str) -> None:
    entries, before = outcomes[name].entries, 0
    assert [entry.batch_id for entry in entries] == list(range(len(BATCHES) + 1))
    for entry, batch in zip(entries, [*BATCHES, []], strict=True):
        counts = dict(entry.accounting)
        came, held = counts.pop("in_"), counts.pop("buffered")
        assert came == len(batch)
        assert came == sum(counts.values()) + held - before
        before = held
    assert entries[-1].totals["in_"] == sum(map(len, BATCHES))
    assert entries[-1].final


def test_union_of_two_streams(spark: SparkSession, tmp_path: Path) -> None:
    sql = (
        "SELECT k, count(*) AS n, sum(v) AS s FROM "
        "(SELECT ts, k, v FROM a WHERE v > 0 UNION ALL SELECT ts, k, v FROM b) u GROUP BY tumblingwindow('ss', 3), k"
    )
    query = Query(sql, {"a": SCHEMA, "b": SCHEMA}, LAG)
    job = Job(tmp_path, query)
    pushes = [("a" if number % 2 else "b", batch) for number, batch in enumerate(BATCHES)]
    for stream, rows in pushes:
        job.feed(rows, stream)
    assert_same(job.run(spark, drain=True), in_harness(query, pushes, drain=True))


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_static_join(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    names = {"schema": "k STRING, name STRING", "rows": [{"k": "k0", "name": "zero"}, {"k": "k1", "name": "one"}]}
    key = "s.k" if "SEMI" in kind or "ANTI" in kind else "t.name"
    sql = f"SELECT {key} AS g, count(*) AS n FROM s {kind} t ON s.k = t.k GROUP BY tumblingwindow('ss', 3), {key}"
    query = Query(sql, {"s": SCHEMA}, LAG, tables={"t": names})
    job = Job(tmp_path, query).feed_all(BATCHES)
    assert_same(job.run(spark, drain=True), in_harness(query, BATCHES, drain=True))


@pytest.mark.parametrize("name", ["tumbling", "top", "rows"])
def test_results_too_big_for_the_driver_go_through_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(overflow, "DRIVER_BYTES", 1)
    query = Query(QUERIES[name], {"s": SCHEMA}, LAG)
    job = Job(tmp_path, query).feed_all(BATCHES)
    assert_same(job.run(spark, drain=True), in_harness(query, BATCHES, drain=True))
