"""A side channel: takes side rows from the micro-batch without waiting, and delivers them in a thread.

A sink that fails is retried until it takes the rows, after growing pauses. Meanwhile rows stay in the outbox; rows that
exceed its capacity are dropped and counted by the caller. The main output never waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.checkpoint.store import UNAVAILABLE
from windowpane.connectors.sinks import Sink
from windowpane.errors import StateError, gist
from windowpane.spark.side_delivery import Build, SideDelivery
from windowpane.spark.unpacking import SideRecords

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each retry; the last one for all further retries."""
LAST_TRIES = 4
"""How often a sink that fails is tried while the pipeline ends for good."""
_TICK = 0.2
_log = logging.getLogger("windowpane.sinks")


class SideChannel:
    """One sink and its undelivered rows. The micro-batch calls `room` and `hand_over`, the pipeline the others."""

    def __init__(
        self,
        sink: Sink,
        side_records: SideRecords,
        outbox: Outbox,
        build: Build,
        *,
        max_pending: int,
        pauses: Sequence[float] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        self.sink, self.side_records, self.outbox = sink, side_records, outbox
        self._delivery = SideDelivery(sink, build, redact)
        self._max_pending, self._pauses, self._redact = max_pending, tuple(pauses) or PAUSES, redact
        self._pending: dict[int, int] = {}
        self._changed = threading.Condition()
        self._hurried = self._closing = False
        self._delivered = self._failed_in_a_row = self._failures = 0
        self._error: str | None = None
        self._thread: threading.Thread | None = None

    def begin(self, last_committed: int) -> None:
        """Take over what an earlier run has left, and start to deliver."""
        self.outbox.forget_after(last_committed)
        self._pending, self._delivered = self.outbox.pending(), self.outbox.delivered()
        self._thread = threading.Thread(target=self._deliver_all, name=f"side-{self.sink.name}", daemon=True)
        self._thread.start()

    def room(self) -> int:
        """How many more rows the channel may hold."""
        with self._changed:
            return max(0, self._max_pending - sum(self._pending.values()))

    def hand_over(self, pending: PendingBatch) -> None:
        """Take the rows of a micro-batch: durable when this returns, delivered later."""
        self.outbox.put(pending)
        with self._changed:
            self._pending[pending.batch_id] = pending.rows
            self._changed.notify_all()

    def status(self) -> dict[str, Any]:
        """For status and metrics."""
        with self._changed:
            found: dict[str, Any] = {
                "waiting": sum(self._pending.values()), "delivered": self._delivered,
                "up": not self._failed_in_a_row, "error": self._error,
            }  # fmt: skip
        unreadable = self.outbox.unreadable()
        return found | ({"damaged": unreadable} if unreadable else {})

    def undelivered(self) -> int:
        """Rows that an unreachable sink has not taken; 0 while it takes them."""
        with self._changed:
            return sum(self._pending.values()) if self._failed_in_a_row else 0

    def settle(self, seconds: float, tries: int = 1) -> int:
        """Wait until all is delivered, time is up, or the sink has failed `tries` times. Returns undelivered rows.

        With one try, a sink that is known to be unreachable is not waited for.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            until = self._failures + tries
            self._hurried = True
            self._changed.notify_all()
            while self._pending and self._failures < until and time.monotonic() < deadline:
                if tries == 1 and self._failed_in_a_row:
                    break
                self._changed.wait(_TICK)
            self._hurried = False
            return sum(self._pending.values())

    def undelivered_records(self) -> list[str]:
        """The JSON records of all undelivered rows."""
        found: list[str] = []
        for batch_id in self.outbox.pending():
            pending = self._read(batch_id)
            found += [] if pending is None else [*self.side_records.texts(pending.batches), *pending.texts]
        return found

    def close(self) -> None:
        """Stop delivering. A write that hangs is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1.0)
        self.sink.close()

    def _deliver_all(self) -> None:
        while (batch_id := self._next()) is not None:
            try:
                pending = self._read(batch_id)
                if pending is None:
                    continue
                self._delivery.deliver(pending)
            except Exception as failed:  # noqa: BLE001  # whatever a sink raises, the rows stay and are tried again
                self._note_failure(failed)
            else:
                self._note_success(batch_id)

    def _read(self, batch_id: int) -> PendingBatch | None:
        """The rows of a batch; None if they cannot be read and were set aside."""
        try:
            return self.outbox.read(batch_id)
        except StateError as broken:
            if broken.code == UNAVAILABLE:
                raise
            self._set_aside(batch_id, broken)
            return None

    def _set_aside(self, batch_id: int, broken: StateError) -> None:
        """Keep a file that cannot be read under another name, and continue with the next batch."""
        moved = self.outbox.set_aside(batch_id, self._pending.get(batch_id, 0))
        with self._changed:
            rows = self._pending.pop(batch_id, 0)
            self._changed.notify_all()
        where = ", ".join(moved) or self.outbox.address()
        what = "side rows of batch %d for sink `%s` cannot be read, and %s rows are not delivered: %s. Kept: %s"
        _log.error(what, batch_id, self.sink.name, f"{rows:,}", broken.message, where)

    def _next(self) -> int | None:
        """The earliest undelivered batch, once it may be tried; None when the channel closes."""
        with self._changed:
            failed = time.monotonic()
            while not self._closing and time.monotonic() < failed + self._pause():
                self._changed.wait(_TICK)
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
            self._error = self._redact(gist(failed)).removeprefix(f"sink `{self.sink.name}` ")
            first, rows = self._failed_in_a_row == 1, sum(self._pending.values())
            self._changed.notify_all()
        if first:
            _log.warning(
                "side sink `%s` fails: %s. %s rows are waiting, and the write is retried; the main output continues",
                self.sink.name, self._error, f"{rows:,}",
            )  # fmt: skip

    def _note_success(self, batch_id: int) -> None:
        delivered = self.outbox.note_delivered(batch_id, self._pending.get(batch_id, 0))
        with self._changed:
            back, self._failed_in_a_row, self._error = self._failed_in_a_row, 0, None
            self._pending.pop(batch_id, None)
            self._delivered = delivered
            rows = sum(self._pending.values())
            self._changed.notify_all()
        if back:
            _log.warning("side sink `%s` accepts rows again; %s are waiting", self.sink.name, f"{rows:,}")
