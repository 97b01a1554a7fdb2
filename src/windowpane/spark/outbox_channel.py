"""A thread that delivers what waits in the outbox of a sink, in order of batches.

A sink that fails is retried until it takes the rows, after growing pauses. Meanwhile they stay in the outbox.
"""

from __future__ import annotations

import abc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic

from windowpane.checkpoint.outbox_files import OutboxFiles, P
from windowpane.checkpoint.store import UNAVAILABLE
from windowpane.connectors.sinks import Sink
from windowpane.errors import StateError, gist

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each retry; the last one for all further retries."""
TICK = 0.2
_log = logging.getLogger("windowpane.sinks")


class OutboxChannel(abc.ABC, Generic[P]):
    """One sink and what it has not taken yet. The micro-batch calls `hand_over`, the pipeline the others."""

    def __init__(
        self, sink: Sink, outbox: OutboxFiles[P], *, pauses: Sequence[float], redact: Callable[[str], str]
    ) -> None:
        self.sink, self._outbox = sink, outbox
        self._pauses, self._redact = tuple(pauses) or PAUSES, redact
        self._pending: dict[int, int] = {}
        """Rows by batch."""
        self._changed = threading.Condition()
        self._hurried = self._closing = False
        self._delivered = self._failed_in_a_row = self._failures = 0
        self._error: str | None = None
        self._thread: threading.Thread | None = None

    @abc.abstractmethod
    def _deliver(self, pending: P) -> None:
        """Write a batch to the sink."""

    @abc.abstractmethod
    def _tell_failure(self, rows: int) -> None:
        """The sink has begun to fail, and so many rows wait."""

    @abc.abstractmethod
    def _tell_success(self, rows: int) -> None:
        """The sink works again, and so many rows wait."""

    def begin(self, last_committed: int) -> None:
        """Take over what an earlier run has left, and start to deliver."""
        self._outbox.forget_after(last_committed)
        self._pending, self._delivered = self._outbox.pending(), self._outbox.delivered()
        self._take_over()
        self._thread = threading.Thread(target=self._deliver_all, name=f"outbox-{self.sink.name}", daemon=True)
        self._thread.start()

    def _take_over(self) -> None:
        """Called before the thread starts."""

    def hand_over(self, pending: P) -> None:
        """Take the rows of a micro-batch: durable when this returns, delivered later."""
        self._outbox.put(pending)
        with self._changed:
            self._pending[pending.batch_id] = pending.rows
            self._changed.notify_all()

    def handed_over(self, batch_id: int) -> int | None:
        """Rows that batches up to this one have put into the outbox, for the ledger; None if later ones have left."""
        return self._outbox.handed_over(batch_id)

    def settle(self, seconds: float, tries: int = 1) -> int:
        """Wait until all is delivered, time is up, or the sink has failed `tries` times. Returns undelivered rows.

        With one try, a sink that is known to be unreachable is not waited for.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            until = self._failures + tries
            self._hurry()
            while self._pending and self._failures < until and time.monotonic() < deadline:
                if tries == 1 and self._failed_in_a_row:
                    break
                self._changed.wait(TICK)
            self._hurried = False
            return sum(self._pending.values())

    def close(self) -> None:
        """Stop delivering. A write that hangs is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1.0)
        self.sink.close()

    def _hurry(self) -> None:
        """Pause for a second at most between attempts. To be called by who holds the lock."""
        self._hurried = True
        self._changed.notify_all()

    def _deliver_all(self) -> None:
        while (batch_id := self._next()) is not None:
            try:
                pending = self._read(batch_id)
                if pending is None:
                    continue
                self._deliver(pending)
                self._note_success(batch_id)
            except Exception as failed:  # noqa: BLE001  # whatever a sink raises, the rows stay and are tried again
                self._note_failure(failed)

    def _read(self, batch_id: int) -> P | None:
        """The rows of a batch; None if they cannot be read and were set aside."""
        try:
            return self._outbox.read(batch_id)
        except StateError as broken:
            if broken.code == UNAVAILABLE:
                raise
            self._set_aside(batch_id, broken)
            return None

    def _set_aside(self, batch_id: int, broken: StateError) -> None:
        """Keep a file that cannot be read under another name, and continue with the next batch."""
        moved = self._outbox.set_aside(batch_id, self._pending.get(batch_id, 0))
        with self._changed:
            rows = self._pending.pop(batch_id, 0)
            self._changed.notify_all()
        where = ", ".join(moved) or self._outbox.address()
        what = "%s of batch %d for sink `%s` cannot be read, and %s rows are not delivered: %s. Kept: %s"
        _log.error(what, self._outbox.holds, batch_id, self.sink.name, f"{rows:,}", broken.message, where)

    def _next(self) -> int | None:
        """The earliest undelivered batch, once it may be tried; None when the channel closes."""
        with self._changed:
            failed = time.monotonic()
            while not self._closing and time.monotonic() < failed + self._pause():
                self._changed.wait(TICK)
            self._changed.wait_for(lambda: self._closing or self._pending)
            return None if self._closing else min(self._pending)

    def _pause(self) -> float:
        if not self._failed_in_a_row:
            return 0.0
        pause = self._pauses[min(self._failed_in_a_row, len(self._pauses)) - 1]
        return min(pause, 1.0) if self._hurried else pause

    def _note_failure(self, failed: Exception) -> None:
        with self._changed:
            if self._closing:
                return
            self._failures += 1
            self._failed_in_a_row += 1
            self._error = self._gist(failed)
            first, rows = self._failed_in_a_row == 1, sum(self._pending.values())
            self._changed.notify_all()
        if first:
            self._tell_failure(rows)

    def _note_success(self, batch_id: int) -> None:
        delivered = self._outbox.note_delivered(batch_id, self._pending.get(batch_id, 0))
        with self._changed:
            back, self._failed_in_a_row, self._error = self._failed_in_a_row, 0, None
            self._pending.pop(batch_id, None)
            self._delivered = delivered
            rows = sum(self._pending.values())
            self._changed.notify_all()
        if back:
            self._tell_success(rows)

    def _gist(self, failed: BaseException) -> str:
        return self._redact(gist(failed)).removeprefix(f"sink `{self.sink.name}` ")
