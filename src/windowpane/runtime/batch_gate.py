"""A gate before the micro-batches of a query: closed, it lets none begin, so that the checkpoint stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windowpane.errors import StateError

GIVEN_UP = "STANDSTILL_GIVEN_UP"
_POLL_SECONDS = 0.25


class BatchGate:
    """Open at first. One thread runs micro-batches, another may close the gate."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = self._running = False

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A micro-batch runs. Waits while the gate is closed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._running = True
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()

    @contextmanager
    def closed(self, give_up: Callable[[], bool]) -> Iterator[None]:
        """No micro-batch runs. Waits for the end of the one that does; StateError once `give_up` says so."""
        with self._changed:
            self._closed = True
        try:
            self._wait_for_end(give_up)
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _wait_for_end(self, give_up: Callable[[], bool]) -> None:
        while not give_up():
            with self._changed:
                if self._changed.wait_for(lambda: not self._running, _POLL_SECONDS):
                    return
        raise StateError(GIVEN_UP, "the pipeline stops before it has carried out the request")
