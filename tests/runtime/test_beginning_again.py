"""A query that ends so that another one reads the next batch: who waits for the end waits for that one."""

from __future__ import annotations

import threading
from typing import Any

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
