"""A query that ends so that another one reads its batch: who waits for the end waits for that one."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from windowpane.errors import SinkError, SparkError
from windowpane.runtime.transform import RunningTransform


class Query:
    """Of Spark, as far as `ended` asks it. `before_it_is_told`: what another thread does when it has ended."""

    def __init__(self, before_it_is_told: Any = None, *, ends: bool = True) -> None:
        self._before_it_is_told, self._ends = before_it_is_told, ends

    def awaitTermination(self, _seconds: float | None = None) -> bool:  # noqa: N802
        if self._before_it_is_told is not None:
            self._before_it_is_told()
        return self._ends


def test_another_thread_was_faster() -> None:
    transform: Any = object.__new__(RunningTransform)
    transform._turn, transform._raised, transform.stopping = threading.RLock(), None, threading.Event()

    def begin_again() -> None:
        transform.query, transform._raised = following, None

    following = Query(ends=False)
    transform.query = Query(begin_again)
    assert not transform.ended(0.1), "the query that follows has not ended"
    assert transform.query is following
    transform.query = Query()
    assert transform.ended(0.1)


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
    transform: Any = object.__new__(RunningTransform)
    transform._raised, transform.stopping, transform._trigger = raised, threading.Event(), None
    transform._planned = transform._lost_executors = transform._examined = None
    transform.checkpoint = SimpleNamespace(log=SimpleNamespace(last_committed=lambda: 2))
    transform.runner = SimpleNamespace(lock=SimpleNamespace(check=lambda: None))
    transform.plan, transform.log, begun = SimpleNamespace(transform="q"), None, list[object]()
    monkeypatch.setattr(RunningTransform, "begin", lambda _self, trigger: begun.append(trigger))
    failed = StreamingQueryException("[STREAM_FAILED] Query terminated with exception")
    assert not transform._has_ended(failed), "another query follows"
    assert "micro-batch 3 is repeated" in caplog.text
    with pytest.raises((SparkError, SinkError)):
        transform._has_ended(failed)
    assert len(begun) == 1
