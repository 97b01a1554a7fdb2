"""Stands by a running pipeline until it ends: by itself, by a signal, or by a request from another process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal, TypeAlias

from windowpane.runtime.control import Requests
from windowpane.runtime.running import RunningPipeline

Outcome: TypeAlias = Literal["exhausted", "drained", "stopped"]
TICK_SECONDS = 0.25


@contextmanager
def signals() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event; a second one ends the process at once.

    To be entered after Spark has started: PySpark takes Ctrl-C for itself when it does.
    """
    asked = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def supervise(
    running: RunningPipeline,
    requests: Requests,
    *,
    asked_to_stop: threading.Event,
    drain: bool,
    tick: Callable[[], None],
) -> Outcome:
    """Until the pipeline has ended; raises what it failed with, after everything has been stopped.

    `drain`: end gracefully when the input is exhausted. `tick` is called a few times a second.
    """
    try:
        request = _next_event(running, requests, asked_to_stop, tick)
    except Exception as failed:
        raise running.fail(failed) from failed
    if request == "drain" or (request is None and drain):
        running.drain()
        return "drained"
    running.stop()
    return "exhausted" if request is None else "stopped"


def _next_event(
    running: RunningPipeline, requests: Requests, asked_to_stop: threading.Event, tick: Callable[[], None]
) -> Literal["drain", "stop"] | None:
    """What ends the run; None when all input is processed."""
    while not running.wait(TICK_SECONDS):
        if asked_to_stop.is_set():
            return "stop"
        request = requests.take()
        if request is not None:
            return request
        running.board.refresh()
        tick()
    return None
