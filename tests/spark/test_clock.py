"""Time that passes while nothing comes: windows and deadlines are due by the clock, over restarts and to the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.clocked import TICKING, feed_running, repeated, wait_for, wait_until_empty
from tests.spark.jobs import Job, Outcome, Query, assert_same, counted, with_options

pytestmark = pytest.mark.spark

SCHEMA = "k STRING, v BIGINT"
PUSHES: list[list[dict[str, Any]]] = [
    [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": None, "v": 3}],
    [{"k": "a", "v": 10}, {"k": "c", "v": 20}],
]
CLOSED_BY_THE_CLOCK = {
    "tumbling": "SELECT k, sum(v) AS s, window_start FROM s GROUP BY tumblingwindow('ss', 2), k",
    "hopping": "SELECT count(*) AS n, window_start FROM s GROUP BY hoppingwindow('ss', 2, 1)",
    "session": "SELECT k, sum(v) AS s, window_end FROM s GROUP BY sessionwindow('ss', 2), k",
    "sliding": "SELECT k, sum(v) AS s, trigger_time FROM s GROUP BY slidingwindow('ss', 9, 2) OVER (WHEN v > 2), k",
}


def clocked(sql: str, **options: Any) -> Query:
    return Query(sql, {"s": SCHEMA}, {**TICKING, **options}, timed=False)


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Fed twice, then left alone until everything has come out, then stopped: no end, no drain."""
    jobs = [Job(tmp_path_factory.mktemp(name), clocked(sql)) for name, sql in CLOSED_BY_THE_CLOCK.items()]
    running = feed_running(spark, jobs, PUSHES)
    wait_until_empty(jobs)
    for each in running:
        each.stop()
    return {name: job.outcome() for name, job in zip(CLOSED_BY_THE_CLOCK, jobs, strict=True)}


@pytest.mark.parametrize("name", CLOSED_BY_THE_CLOCK)
def test_windows_come_out_when_their_time_has_passed(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert_same(outcome, repeated(clocked(CLOSED_BY_THE_CLOCK[name]), PUSHES, outcome.entries))
    without_input = [entry.batch_id for entry in outcome.entries if not entry.accounting["in_"]]
    assert any(outcome.rows.get(batch) for batch in without_input)
    assert sum(entry.results for entry in outcome.entries) == len(outcome.all_rows)


LOOKAHEAD = clocked("SELECT k, v, trigger_time FROM s GROUP BY slidingwindow('ss', 60, 6)")


def test_a_deadline_that_passes_while_the_pipeline_is_down_fires_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Started again without a new row. A batch that was under way keeps its time; the next has the windows."""
    job = Job(tmp_path, LOOKAHEAD)
    (running,) = feed_running(spark, [job], PUSHES[:1])
    running.stop()
    before = job.outcome()
    assert not before.all_rows
    due_us = before.entries[0].clock_us + 6_000_000
    time.sleep(max(0.0, due_us / 1e6 - time.time()))
    assert before.entries[-1].open_windows == 3
    running = job.start(spark)
    first = wait_for(job, lambda entry: entry.clock_us >= due_us)
    running.stop()
    outcome = job.outcome()
    assert first.accounting["in_"] == 0
    assert first.results == len(outcome.all_rows) == 9
    assert_same(outcome, repeated(LOOKAHEAD, PUSHES[:1], outcome.entries))


def test_a_graceful_end_does_not_wait_for_deadlines(spark: SparkSession, tmp_path: Path) -> None:
    """And shards do not change the rows."""
    query = clocked("SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY slidingwindow('mi', 10, 10), k")
    jobs = [Job(tmp_path / f"{shards}", query, shards=shards) for shards in (1, 3)]
    for each in feed_running(spark, jobs, PUSHES):
        each.drain()
    one, three = (job.outcome() for job in jobs)
    assert one.entries[-1].final
    assert counted(one.all_rows) == counted(three.all_rows)
    assert_same(one, repeated(query, PUSHES, one.entries))


def test_a_setting_that_needs_the_clock_comes_later(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark goes on only with the sources it has begun with, so that no source of ticks comes to an old checkpoint."""
    sql = "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1)"
    before = Query(sql, {"s": "ts BIGINT"})
    job = Job(tmp_path, before)
    job.feed([{"ts": 100}])
    job.run(spark)
    later = Job(tmp_path, with_options(before, idle_timeout="1h"))
    later.fed = job.fed
    later.feed([{"ts": 5000}])
    assert [row["n"] for row in later.run(spark).all_rows] == [1]
    assert "idle_timeout takes effect only when rows arrive" in caplog.text


def test_a_source_that_falls_silent_holds_nothing_back(spark: SparkSession, tmp_path: Path) -> None:
    """Event time, two streams: the watermark waits for the one without rows until it is idle; then nothing comes."""
    union = "SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b"
    sql = f"SELECT k, count(*) AS n FROM ({union}) u GROUP BY tumblingwindow('ss', 1), k"
    schema = "ts BIGINT, k STRING"
    query = Query(sql, {"a": schema, "b": schema}, {**TICKING, "idle_timeout": "10s"})
    job = Job(tmp_path, query)
    (running,) = feed_running(spark, [job], [[{"ts": 100, "k": "x"}]])
    began_us = job.outcome().entries[0].clock_us
    wait_for(job, lambda entry: entry.clock_us >= began_us + 2_500_000)
    job.feed([{"ts": 5000, "k": "x"}])
    entry = wait_for(job, lambda entry: entry.results > 0)
    running.stop()
    assert entry.accounting["in_"] == 0
    assert entry.watermark_us == 5_000_000
    assert [(row["k"], row["n"]) for row in job.outcome().all_rows] == [("x", 1)]
