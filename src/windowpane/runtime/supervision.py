"""Waits for the end of a running pipeline: by itself, by a signal, or by a request from another process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

from windowpane.checkpoint.control import Requests, SavepointRequest
from windowpane.errors import WindowpaneError
from windowpane.runtime.batch_gate import GIVEN_UP
from windowpane.runtime.running import RunningPipeline

Outcome: TypeAlias = Literal["exhausted", "drained", "stopped"]
TICK_SECONDS = 0.25
SIGNAL_SECONDS = 0.5
"""A service manager signals Spark's Python workers too, in any order: their failure may arrive before the signal."""


def supervise(
    running: RunningPipeline,
    requests: Requests,
    *,
    asked_to_stop: threading.Event,
    drain: bool,
    tick: Callable[[], None],
) -> Outcome:
    """Wait until the pipeline has ended; raises its error after everything has been stopped.

    `drain`: end gracefully when the input is exhausted. `tick` is called a few times a second. What fails once a stop
    was asked for is no failure: everything is kept, and the next start replays the micro-batch.
    """
    try:
        request = _next_event(running, requests, asked_to_stop, tick)
        if (request == "drain" or (request is None and drain)) and running.drain_unless(asked_to_stop):
            return "drained"
    except Exception as failed:
        if not asked_to_stop.wait(SIGNAL_SECONDS):
            raise running.fail(failed) from failed
        request = "stop"
    running.stop()
    return "exhausted" if request is None and not asked_to_stop.is_set() else "stopped"


def _next_event(
    running: RunningPipeline, requests: Requests, asked_to_stop: threading.Event, tick: Callable[[], None]
) -> Literal["drain", "stop"] | None:
    """The request that ends the run; None if all input is processed."""
    while not running.wait(TICK_SECONDS):
        if asked_to_stop.is_set():
            return "stop"
        request = requests.take()
        if isinstance(request, SavepointRequest):
            _take_savepoint(running, requests, request, asked_to_stop)
        elif request is not None:
            return request
        running.board.refresh()
        tick()
    return None


def _take_savepoint(
    running: RunningPipeline, requests: Requests, asked: SavepointRequest, asked_to_stop: threading.Event
) -> None:
    """Take a savepoint and answer. Who asked takes it by itself if the pipeline stops first."""
    try:
        running.savepoint(asked.name, lambda: asked_to_stop.is_set() or requests.asks_to_end())
    except WindowpaneError as failed:
        if failed.code != GIVEN_UP:
            requests.answer(asked, failed.as_dict())
        return
    if running.board.recent is not None:
        running.board.recent.note("savepoint", f"savepoint {asked.name} was taken")
    requests.answer(asked)
