"""A side channel: takes side rows from the micro-batch without waiting, and delivers them in a thread.

Rows that exceed the outbox's capacity are dropped and counted by the caller. The main output never waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.connectors.sinks import Sink
from windowpane.spark.outbox_channel import OutboxChannel
from windowpane.spark.side_delivery import Build, SideDelivery
from windowpane.spark.unpacking import SideRecords

LAST_TRIES = 4
"""How often a sink that fails is tried while the pipeline ends for good."""
_log = logging.getLogger("windowpane.sinks")


class SideChannel(OutboxChannel[PendingBatch]):
    """One sink and its undelivered side rows. The micro-batch also calls `room`."""

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
        super().__init__(sink, outbox, pauses=pauses, redact=redact)
        self.side_records, self.outbox = side_records, outbox
        self._delivery, self._max_pending = SideDelivery(sink, build, redact), max_pending

    def room(self) -> int:
        """How many more rows the channel may hold."""
        with self._changed:
            return max(0, self._max_pending - sum(self._pending.values()))

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

    def undelivered_records(self) -> list[str]:
        """The JSON records of all undelivered rows."""
        found: list[str] = []
        for batch_id in self.outbox.pending():
            pending = self._read(batch_id)
            found += [] if pending is None else [*self.side_records.texts(pending.batches), *pending.texts]
        return found

    def _deliver(self, pending: PendingBatch) -> None:
        self._delivery.deliver(pending)

    def _tell_failure(self, rows: int) -> None:
        _log.warning(
            "side sink `%s` fails: %s. %s rows are waiting, and the write is retried; the main output continues",
            self.sink.name, self._error, f"{rows:,}",
        )  # fmt: skip

    def _tell_success(self, rows: int) -> None:
        _log.warning("side sink `%s` accepts rows again; %s are waiting", self.sink.name, f"{rows:,}")
