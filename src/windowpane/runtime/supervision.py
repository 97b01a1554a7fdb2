"""Waits for the end of a running pipeline: by itself, by a signal, or by a request from another process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from windowpane.checkpoint.control import Question, Requests, SavepointRequest, SideRowsRequest
from windowpane.runtime.asking.asked import counted
from windowpane.runtime.batch_gate import GIVEN_UP
from windowpane.runtime.repairing.repairing import RepairOptions
from windowpane.runtime.running import RunningPipeline

_log = logging.getLogger("windowpane.run")
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
    questions = _Questions(running, requests, asked_to_stop)
    questions.finish_repairs()
    while not running.wait(TICK_SECONDS):
        if asked_to_stop.is_set():
            return "stop"
        request = requests.take()
        if isinstance(request, SavepointRequest | SideRowsRequest):
            questions.answer(request)
        elif request is not None:
            return request
        running.board.refresh()
        tick()
    return None


@dataclass(frozen=True)
class _Questions:
    """Does what other processes ask for, between two micro-batches, and answers.

    Who asked does it instead if the pipeline stops first.
    """

    running: RunningPipeline
    requests: Requests
    asked_to_stop: threading.Event

    def answer(self, asked: Question) -> None:
        try:
            result, event = self._done(asked)
        except Exception as raised:  # noqa: BLE001  # whatever it is, the pipeline goes on
            failed = self.running.failure(raised)
            if failed.code != GIVEN_UP:
                self.requests.answer(asked, failed.as_dict())
            return
        self._note(*event)
        self.requests.answer(asked, result=result)

    def _done(self, asked: Question) -> tuple[dict[str, Any] | None, tuple[str, str]]:
        """What the answer says, and the event for the log."""
        if isinstance(asked, SavepointRequest):
            self.running.savepoint(asked.name, self._gives_up)
            return None, ("savepoint", f"savepoint {asked.name} was taken")
        options = RepairOptions(asked.sink, asked.where, stream=asked.stream)
        if asked.command == "replay":
            again = self.running.replay(asked.transform, options, self._gives_up)
            rows = sum(again.replay.kinds.values()) if again.replay else 0
            return again.as_dict(), ("replay", f"{asked.transform}: {counted(rows, 'row')} replayed, from {asked.sink}")
        found = self.running.repair(asked.transform, options, self._gives_up)
        rows, windows = sum(found.repaired.values()), found.folded.windows
        what = f"repaired {counted(rows, 'row')} in {counted(windows, 'window')}" if rows else "found nothing to repair"
        return found.as_dict(), ("repair", f"{asked.transform}: {what}, from {asked.sink}")

    def finish_repairs(self) -> None:
        """Those that another process has begun."""
        try:
            for transform, numbers in self.running.finish_repairs(self._gives_up).items():
                for number in numbers:
                    self._note("repair", f"{transform}: finished repair {number}, which was cut short")
        except Exception as raised:  # noqa: BLE001  # the results stay in the checkpoint
            failed = self.running.failure(raised)
            if failed.code != GIVEN_UP:
                _log.warning("a repair is not delivered yet; windowpane repair tries again: %s", failed.message)

    def _gives_up(self) -> bool:
        return self.asked_to_stop.is_set() or self.requests.asks_to_end()

    def _note(self, kind: str, text: str) -> None:
        if self.running.board.recent is not None:
            self.running.board.recent.note(kind, text)
