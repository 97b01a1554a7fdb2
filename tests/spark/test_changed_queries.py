"""A query that changes over a checkpoint on Spark: each class of change that goes on, as in the harness."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, assert_same, finish
from tests.spark.test_queries import BATCHES, LAG, SCHEMA
from windowpane.errors import StateError

pytestmark = pytest.mark.spark

BASE = Query(
    "SELECT k, count(*) AS n, sum(v) AS s, avg(x) AS a, window_id, emit_epoch, is_final FROM s "
    "GROUP BY tumblingwindow('ss', 3), k EMIT ON UPDATE",
    {"s": SCHEMA}, LAG,
)  # fmt: skip
FINAL = replace(BASE, sql=BASE.sql.replace(" EMIT ON UPDATE", ""))
SESSIONS = replace(FINAL, sql=FINAL.sql.replace("tumblingwindow('ss', 3)", "sessionwindow('ss', 1)"))
MEANS = FINAL.sql.replace("SELECT k, count(*) AS n, sum(v) AS s", "SELECT sum(v) / count(*) AS m, k")
CHANGES = [
    (FINAL, replace(FINAL, sql=MEANS)),
    (SESSIONS, replace(SESSIONS, sql=SESSIONS.sql.replace("count(*) AS n, sum(v) AS s, ", ""))),
    (BASE, FINAL),
    (FINAL, replace(FINAL, transform={"allowed_lateness": "4s"})),
]  # fmt: skip


def changed_in_harness(old: Query, new: Query) -> Outcome:
    harness, outcome = old.harness(), Outcome()
    for number, batch in enumerate([*BATCHES[:4], None]):
        if number == 2:
            harness.change(new.sql, transform=new.transform)
        step = harness.push(batch) if batch is not None else harness.end()
        if step.rows:
            outcome.rows[number] = step.rows
        if step.side:
            outcome.side[number] = step.side
    return outcome


def test_changes_that_go_on_with_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """The second start has another query, over the state of the first."""
    jobs = [Job(tmp_path / f"{number}", old).feed_all(BATCHES[:2]) for number, (old, _) in enumerate(CHANGES)]
    for each in [job.start(spark) for job in jobs]:
        finish(each, drain=False)
    for job, (old, new) in zip(jobs, CHANGES, strict=True):
        job.feed_all(BATCHES[2:4])
        job.query = new
        if old.sql != new.sql:
            with pytest.raises(StateError, match="The change would be taken over"):
                job.start(spark)
    for each in [job.pipeline().start(spark, evolve=True) for job in jobs]:
        finish(each, drain=True)
    for job, (old, new) in zip(jobs, CHANGES, strict=True):
        assert_same(job.outcome(), changed_in_harness(old, new))
