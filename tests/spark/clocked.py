"""Jobs in which time passes by itself: fed while they run, and repeated in the harness by the clock of their ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, Rows, _plain
from windowpane.checkpoint.ledger import Entry
from windowpane.runtime import RunningPipeline
from windowpane.time import to_datetime

TICKING = {"trigger": "200ms"}


def wait_for(job: Job, holds: Callable[[Entry], bool], seconds: float = 60) -> Entry:
    """The first ledger entry of which something holds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = next((entry for entry in job.outcome().entries if holds(entry)), None)
        if found is not None:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{job.query.sql}: {job.outcome().entries[-1:]}")


def feed_running(spark: SparkSession, jobs: Sequence[Job], pushes: Sequence[Rows]) -> list[RunningPipeline]:
    """Start the jobs, and feed each push when all have taken in the one before."""
    running, fed = [job.start(spark) for job in jobs], 0
    for rows in pushes:
        fed += len(rows)
        for job in jobs:
            job.feed(rows)
        for job in jobs:
            wait_for(job, lambda entry, fed=fed: entry.totals["in_"] >= fed)  # type: ignore[misc]
    return running


def wait_until_empty(jobs: Sequence[Job]) -> None:
    """Until everything that was open has come out, with no further input."""
    for job in jobs:
        fed = max(entry.batch_id for entry in job.outcome().entries if entry.accounting["in_"])
        wait_for(job, lambda entry, fed=fed: entry.batch_id > fed and not entry.open_windows)  # type: ignore[misc]


def repeated(query: Query, pushes: Sequence[Rows], entries: Sequence[Entry]) -> Outcome:
    """The same micro-batches at the same times without Spark."""
    left, outcome = list(pushes), Outcome()
    harness = query.harness(now=to_datetime(entries[0].clock_us))
    for entry in entries:
        now_us = entry.clock_us
        if entry.final:
            step = harness.end()
        elif entry.accounting["in_"]:
            step = harness.push(left.pop(0), at=now_us)
        else:
            step = harness.push([], at=now_us)
        if step.rows:
            outcome.rows[entry.batch_id] = [_plain(row) for row in step.rows]
    assert not left, "not all that was fed has been taken in"
    return outcome
