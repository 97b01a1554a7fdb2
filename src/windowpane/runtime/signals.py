"""Ctrl-C and SIGTERM ask a run to stop. Does not import Spark, so that they work while Spark is still loading."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

IMPATIENT_SECONDS = 1.0
"""A signal this long after the first is a second one. `timeout` sends its signal to the process and to its group."""


class StopSignals:
    """`asked` is set by the first signal. While the run is starting, it also raises KeyboardInterrupt there."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.is_impatient = False
        """A second signal has arrived: the process ends at once."""
        self._interrupts = True
        self._first = 0.0

    def hear(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """The signal handler."""
        now, first = time.monotonic(), not self.asked.is_set()
        if first:
            self._first = now
            self.asked.set()
        self.is_impatient = now - self._first >= IMPATIENT_SECONDS
        if self.is_impatient or (first and self._interrupts):
            raise KeyboardInterrupt

    def started(self) -> None:
        """The run has started and checks `asked`. PySpark has replaced the handler of Ctrl-C meanwhile."""
        self._interrupts = False
        signal.signal(signal.SIGINT, self.hear)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Handles Ctrl-C and SIGTERM until the end of the block."""
    signals = StopSignals()
    before = {number: signal.signal(number, signals.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
