"""A query that ends so that another one reads its batch: who waits for the end waits for that one."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from windowpane.errors import SinkError, SparkError
from windowpane.runtime.job import RunningJob


class Query:
    """Of Spark, as far as `ended` asks it. `before_it_is_told`: what another thread does when it has ended."""

    def __init__(self, before_it_is_told: Any = None, *, ends: bool = True) -> None:
        self._before_it_is_told, self._ends = before_it_is_told, ends

    def awaitTermination(self, _seconds: float | None = None) -> bool:  # noqa: N802
        if self._before_it_is_told is not None:
            self._before_it_is_told()
        return self._ends


def test_another_thread_was_faster() -> None:
    job: Any = object.__new__(RunningJob)
    job._turn, job._raised, job.stopping = threading.RLock(), None, threading.Event()

    def begin_again() -> None:
        job.query, job._raised = following, None

    following = Query(ends=False)
    job.query = Query(begin_again)
    assert not job.ended(0.1), "the query that follows has not ended"
    assert job.query is following
    job.query = Query()
    assert job.ended(0.1)


LOST = """\
An error occurred while calling o155.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 8.0 failed 4 times, most recent \
failure: Lost task 1.3 in stage 8.0 (TID 31) (198.18.3.13 executor 5): ExecutorLostFailure (executor 5 exited)
"""


def wrapped_by_a_sink() -> SinkError:
    failed = SinkError("SINK_WRITE", "sink `results` could not write")
    failed.__cause__ = RuntimeError(LOST)
    return failed


@pytest.mark.parametrize("raised", [RuntimeError(LOST), wrapped_by_a_sink()])
def test_a_batch_that_lost_its_executors_is_repeated_once(
    raised: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job: Any = object.__new__(RunningJob)
    job._raised, job.stopping, job._trigger = raised, threading.Event(), None
    job._planned = job._lost_executors = job._examined = None
    job.checkpoint = SimpleNamespace(log=SimpleNamespace(last_committed=lambda: 2))
    job.runner = SimpleNamespace(lock=SimpleNamespace(check=lambda: None))
    job.plans, job.log, begun = [SimpleNamespace(transform="q")], None, list[object]()
    monkeypatch.setattr(RunningJob, "begin", lambda _self, trigger: begun.append(trigger))
    failed = StreamingQueryException("[STREAM_FAILED] Query terminated with exception")
    assert not job._has_ended(failed), "another query follows"
    assert "micro-batch 3 is repeated" in caplog.text
    with pytest.raises((SparkError, SinkError)):
        job._has_ended(failed)
    assert len(begun) == 1
