"""How a run is followed: live lines on a terminal, a plain line now and then elsewhere, or JSON for scripts."""

from __future__ import annotations

import abc
import json
import logging
import sys
import threading
import time
from typing import Any, TextIO

from windowpane.checkpoint.ledger import Entry
from windowpane.cli.figures import status_line
from windowpane.cli.live import Above, LiveLines
from windowpane.runtime.status import Board, describe_entry

LINES_EVERY_SECONDS = 10.0


class Progress(abc.ABC):
    """Receives the progress of a run. `heard` comes from Spark's threads, all else from the main thread."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._warnings = _Warnings(self)
        logging.getLogger("windowpane").addHandler(self._warnings)

    @property
    def stdout(self) -> Any:
        """Where console sinks print."""
        return sys.stdout

    def watch(self, board: Board) -> None:
        """The pipeline runs; `board` has its figures."""
        self._board = board

    def heard(self, transform: str, entry: Entry) -> None:  # noqa: B027  # most look at the board
        """A micro-batch is done."""

    @abc.abstractmethod
    def say(self, text: str) -> None:
        """A note for the user."""

    @abc.abstractmethod
    def tick(self) -> None:
        """Called a few times a second."""

    def close(self) -> None:
        """The run is over; nothing may stay on the screen that changes."""
        logging.getLogger("windowpane").removeHandler(self._warnings)

    def lines(self) -> list[str]:
        """The board as lines."""
        document = self._board.document() if self._board else {"transforms": {}}
        shown = [status_line(name, transform) for name, transform in document["transforms"].items()]
        return shown or ["waiting for the first rows …"]


class LiveProgress(Progress):
    """On a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._live = LiveLines(terminal)
        self._above = Above(terminal, self._live)

    @property
    def stdout(self) -> Any:
        return Above(sys.stdout, self._live) if sys.stdout.isatty() else sys.stdout

    def say(self, text: str) -> None:
        self._above.write(f"{text}\n")

    def tick(self) -> None:
        self._live.show(self.lines())

    def close(self) -> None:
        super().close()
        self._live.clear()


class LinesProgress(Progress):
    """In a log file or a pipe: a line per transform every few seconds, only where something has happened."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._told: dict[str, object] = {}
        self._next = 0.0

    def say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self) -> None:
        if self._board is None or time.monotonic() < self._next:
            return
        # Not by the batch: where the clock is waited for, batches without rows and results come every second.
        news: dict[str, object] = {
            name: (entry.totals, entry.open_windows, entry.final) for name, entry in self._board.entries.items()
        }
        if news != self._told:
            self._told, self._next = news, time.monotonic() + LINES_EVERY_SECONDS
            self.say("\n".join(self.lines()))


class JsonProgress(Progress):
    """One JSON object per micro-batch on stdout; what console sinks print goes to stderr."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out, self._lock = out, threading.Lock()

    @property
    def stdout(self) -> Any:
        return sys.stderr

    def heard(self, transform: str, entry: Entry) -> None:
        line = json.dumps({"event": "batch", "transform": transform} | describe_entry(entry))
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()

    def say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def tick(self) -> None:
        pass


class _Warnings(logging.Handler):
    """What windowpane itself logs, as notes."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.say(record.getMessage())
