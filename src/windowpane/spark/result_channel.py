"""Results on their way to one sink: written by the micro-batch, or by a thread once the sink was away.

A sink that keeps failing does not end the query. The batch and those behind it wait in the checkpoint, and the thread
delivers them in order, each with its own id. When nothing waits any more, micro-batches write directly again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from windowpane.checkpoint.backlog import Backlog
from windowpane.checkpoint.result_outbox import ResultOutbox, WaitingResults
from windowpane.checkpoint.store import UNAVAILABLE
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import SinkBatch
from windowpane.errors import SinkError, StateError
from windowpane.spark.outbox_channel import TICK, OutboxChannel

_log = logging.getLogger("windowpane.sinks")
HELD_SECONDS = 3.0
"""How long a micro-batch waits for a sink whose results can wait. Others of its job wait with it."""


class ResultChannel(OutboxChannel[WaitingResults]):
    """One sink and its undelivered results. `max_bytes`: how much may wait; 0: a sink that fails ends the query."""

    sink: RetryingSink
    ending_seconds = 60.0
    """How long a sink that fails is tried when the input is at its end."""

    def __init__(
        self,
        sink: RetryingSink,
        outbox: ResultOutbox,
        *,
        keep: Callable[[SinkBatch], WaitingResults],
        build: Callable[[WaitingResults], SinkBatch],
        max_bytes: int,
        stopping: threading.Event,
        pauses: Sequence[float] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        super().__init__(sink, outbox, pauses=pauses, redact=redact)
        self._keep, self._build, self._stopping = keep, build, stopping
        self._max_bytes = max_bytes if sink.can_wait else 0
        self._backlog, self._waited = Backlog(), Backlog()
        """What waits now, and what has waited since the sink went away."""
        self._lost, self._ending_since, self._settled = 0, 0.0, -1
        """`_settled`: the last batch that was delivered from the outbox."""
        self._fatal: Exception | None = None

    def _take_over(self) -> None:
        self._lost, self._settled = self._outbox.lost(), self._outbox.settled_until()
        self._backlog, self._waited = Backlog.of(self._outbox.files()), Backlog.of(self._outbox.files())
        if self._backlog:
            left = self._backlog.described()
            _log.warning("sink `%s`: %s. They are delivered before any new ones", self.sink.name, left)

    def open(self, spark: SparkSession, columns: Sequence[str], *, identified: bool, must_be_there: bool) -> None:
        """Called before the first batch. Raises ConfigError or SinkError for a mistake, and if a sink is away that
        `must_be_there` or cannot wait.
        """
        self.sink.open(spark, identified=identified)
        try:
            self.sink.check(columns)
        except SinkError as failed:
            if must_be_there or not self._max_bytes or not self.sink.may_pass(failed):
                raise SinkError(failed.code, self._redact(failed.message), failed.hint, passing=False) from failed

    def write(self, batch: SinkBatch) -> None:
        """Called by the micro-batch: when this returns, the rows are in the sink, or durable in the outbox.

        SinkError if the sink fails for a reason that will not pass, or if too much waits.
        """
        self.check()
        if self._has(batch) or (not self._backlog and self._is_written(batch)):
            return
        if not self._is_put_aside(batch):
            self.sink.write(batch)

    def check(self) -> None:
        """Raises the reason if the results that wait can never be delivered."""
        if self._fatal is not None:
            raise self._fatal

    def caught_up(self, seconds: float) -> bool:
        """Whether everything is delivered, within `seconds`. Called again and again when the input is at its end.

        SinkError if the sink has not taken anything for too long.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._ending_since = self._ending_since or time.monotonic()
            self._hurry()
            while self._backlog and time.monotonic() < deadline:
                self.check()
                if self._failed_in_a_row and time.monotonic() > self._ending_since + self.ending_seconds:
                    self._ending_since = 0.0
                    raise self._away(f"{self._backlog.described()} in {self._outbox.address()}")
                self._changed.wait(TICK)
            return not self._backlog

    def hand_over(self, pending: WaitingResults) -> None:
        self._outbox.put(pending)
        with self._changed:
            self._backlog.add(pending.batch_id, pending)
            self._waited.add(pending.batch_id, pending)
            self._pending[pending.batch_id] = pending.rows
            self._ending_since, self._hurried = 0.0, False
            self._changed.notify_all()

    def handed_over(self, batch_id: int) -> int | None:  # only the last batch asks
        with self._changed:
            return (self._delivered + self._lost + sum(self._pending.values())) or None

    def undelivered(self) -> int:
        """Rows that wait."""
        with self._changed:
            return sum(self._pending.values())

    def status(self) -> dict[str, Any]:
        """For status and metrics."""
        with self._changed:
            return {"up": not self._failed_in_a_row, "error": self._error, **self._backlog.as_dict()}

    def _has(self, batch: SinkBatch) -> bool:
        """Whether the batch has been here in this run: a query that is restarted repeats a batch, with equal rows."""
        with self._changed:
            return batch.batch_id in self._pending or batch.batch_id <= self._settled

    def _is_written(self, batch: SinkBatch) -> bool:
        """Write a batch. False if it may wait, because the sink is away."""
        waits = bool(self._max_bytes) and not batch.final
        try:
            self.sink.write(batch, within=HELD_SECONDS if waits else None)
        except SinkError as failed:
            if batch.final or not self._max_bytes or not failed.passing or self._stopping.is_set():
                raise
            with self._changed:
                self._failures += 1
                self._failed_in_a_row += 1
                self._error = self._gist(failed.__cause__ or failed)
            self._tell_failure(batch.rows)
            return False
        return True

    def _is_put_aside(self, batch: SinkBatch) -> bool:
        """Put a batch into the outbox. False if the sink is back, has caught up, and may get the batch at once."""
        if batch.final:
            raise self._away(f"{self._backlog.described()}, before those of the end")
        self._has_room(batch.batch_id, 0)
        if not self._backlog and not self._failed_in_a_row:
            return False
        results, kept = self._keep(batch), False
        try:
            kept = self._has_room(batch.batch_id, results.size)
        finally:
            if not kept:
                self._outbox.remove(batch.batch_id)
        if kept:
            self.hand_over(results)
        return kept

    def _has_room(self, batch_id: int, size: int) -> bool:
        """Wait as long as the sink takes rows. SinkError if there is no room; False if all is delivered meanwhile."""
        with self._changed:
            failures = self._failures
            while self._backlog.size + size > self._max_bytes:
                self.check()
                if not self._backlog and not self._failed_in_a_row:
                    return False
                if not self._backlog or self._failures > failures or self._stopping.is_set():
                    raise self._full(batch_id)
                self._hurry()
                self._changed.wait(TICK)
            return True

    def _full(self, batch_id: int) -> SinkError:
        limit = f"options.max_result_backlog_bytes is {self._max_bytes:,}"
        full = f"there is no room for batch {batch_id} ({limit})"
        return self._away(f"{self._backlog.described()}, and {full}" if self._backlog else f"And {full}")

    def _away(self, what: str) -> SinkError:
        message = f"sink `{self.sink.name}` does not take results: {self._error or 'it is too slow'}. {what}"
        return SinkError("SINK_FAILED", message, "nothing is lost: the next start delivers what waits, and goes on")

    def _deliver(self, pending: WaitingResults) -> None:
        self.sink.write_once(self._build(pending))

    def _set_aside(self, batch_id: int, broken: StateError) -> None:
        """Results are not left out: the pipeline ends."""
        raise broken

    def _note_failure(self, failed: Exception) -> None:
        super()._note_failure(failed)
        fatal = self._lasting(failed)
        if fatal is not None:
            with self._changed:
                self._fatal, self._closing = fatal, True
                self._changed.notify_all()

    def _lasting(self, failed: Exception) -> Exception | None:
        """The error that ends the pipeline; None if another attempt may succeed."""
        if isinstance(failed, StateError):
            return None if failed.code == UNAVAILABLE else failed
        if self.sink.may_pass(failed):
            return None
        what = f"sink `{self.sink.name}` does not take results: {self._gist(failed)}. {self._backlog.described()}"
        hint = "trying again would not help. Correct it, and start again: what waits is delivered first"
        return SinkError("SINK_FAILED", what, hint, passing=False)

    def _note_success(self, batch_id: int) -> None:
        with self._changed:
            self._ending_since = time.monotonic() if self._ending_since else 0.0
        super()._note_success(batch_id)
        with self._changed:
            self._backlog.remove(batch_id)
            self._settled = max(self._settled, batch_id)
            if not self._backlog:
                waited, self._waited = self._waited.described().replace("wait ", "waited ", 1), Backlog()
                # Within the lock: whoever waits for this goes on after it was said.
                _log.warning("sink `%s` is back and has caught up: %s", self.sink.name, waited)

    def _tell_failure(self, rows: int) -> None:
        _log.warning(
            "sink `%s` is away: %s. Its results wait in the checkpoint, at most %s bytes; the query goes on",
            self.sink.name, self._error, f"{self._max_bytes:,}",
        )  # fmt: skip

    def _tell_success(self, rows: int) -> None:
        """Told when all is delivered."""
