"""Cumulate windows and windows of local days on Spark: as in the harness, over a crash, a restart and the end."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Query, assert_same, in_harness, run_together
from tests.spark.test_promises import forget_commit

pytestmark = pytest.mark.spark

SCHEMA = {"s": "ts BIGINT, k STRING, v BIGINT"}
LAG = {"eventtime.late_tolerance": "6h"}
SQL = {
    "cumulate": """SELECT window_start, window_end, window_id, k, sum(v) AS total, emit_epoch, is_final
        FROM s GROUP BY k WINDOW CUMULATE (STEP 6 HOURS, SIZE 1 DAY) EMIT ON UPDATE""",
    "local days": """SELECT window_start, window_end, window_time, k, count(*) AS n, sum(v) AS total
        FROM s GROUP BY tumblingwindow('dd', 1, 'Europe/Berlin'), k""",
    "hopping days": "SELECT window_start, window_end, median(v) AS m FROM s "
    "WINDOW HOPPING (SIZE 2 DAYS, SLIDE 1 DAY, TIME ZONE 'Europe/Berlin')",
    "table function": """SELECT window_start, window_time, k, count(*) AS n
        FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(timestamp_millis(ts)), INTERVAL '12' HOUR, INTERVAL '1' DAY))
        GROUP BY window_start, window_end, window_time, k""",
}
START = int(dt.datetime(2024, 3, 30, tzinfo=dt.UTC).timestamp()) * 1000
HOUR = 3_600_000


class ScannedJob(Job):
    """Read by the columnar scan."""

    def settings(self) -> dict[str, Any]:
        settings = super().settings()
        for stream in settings["streams"].values():
            stream["scan"] = "columnar"
        return settings


def batches() -> list[list[dict[str, Any]]]:
    """Three days around the night in which clocks go forward, some rows late."""
    draw = random.Random(5)
    return [
        [
            {
                "ts": START + (12 * number + draw.choice((draw.randrange(-12, 12), -60))) * HOUR + draw.randrange(HOUR),
                "k": f"k{n % 3}",
                "v": n,
            }
            for n in range(12)
        ]
        for number in range(6)
    ]


def test_as_in_the_harness_over_a_crash_and_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {"cumulate": Job, "local days": ScannedJob, "hopping days": Job, "table function": Job}
    rows = batches()
    jobs = [kind(tmp_path / name, Query(SQL[name], SCHEMA, LAG)) for name, kind in kinds.items()]
    run_together(spark, [job.feed_all(rows[:3]) for job in jobs])
    for job in jobs:
        forget_commit(job.folder / "state" / "q" / "spark", 2)
    outcomes = run_together(spark, [job.feed_all(rows[3:]) for job in jobs], drain=True)
    for job, outcome in zip(jobs, outcomes, strict=True):
        wanted = in_harness(job.query, rows, drain=True)
        assert wanted.all_side, "some rows are late"
        assert_same(outcome, wanted)
    assert jobs[1].pipeline().plans[0].scan is not None
