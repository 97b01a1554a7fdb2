"""A side channel: takes side rows from the micro-batch without waiting, and brings them to its sink by itself.

A sink that fails is tried again until it takes them, a little later each time. Meanwhile rows wait in the outbox; what
finds no more room there is dropped and counted by whoever hands over. The main output never waits for any of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.compute as pc

from windowpane.checkpoint.outbox import Outbox, Waiting
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.durable import write_whole
from windowpane.errors import StateError, gist
from windowpane.spark.unpacking import SideRecords

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before the next tries; the last one for all after it."""
LAST_TRIES = 4
"""How often a sink that fails is tried while the pipeline ends for good."""
MAX_BYTES = (900_000, 60_000, 4_000, 1_000)
"""How long records may be when the sink does not take them whole, tried in turn. Kafka's usual limit is 1 MiB."""
_TICK = 0.2
_log = logging.getLogger("windowpane.sinks")
Build: TypeAlias = Callable[[Waiting, int | None], SinkBatch]
"""Makes a batch for a sink of what waits, with records of at most so many bytes."""


class SideChannel:
    """One sink and what waits for it. The micro-batch calls `room` and `hand_over`, the pipeline's owner all else."""

    def __init__(
        self,
        sink: Sink,
        side_records: SideRecords,
        outbox: Outbox,
        build: Build,
        *,
        max_waiting: int,
        pauses: Sequence[float] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        self.sink, self.side_records, self.outbox = sink, side_records, outbox
        self._build, self._max_waiting, self._pauses = build, max_waiting, tuple(pauses) or PAUSES
        self._redact = redact
        self._waiting: dict[int, int] = {}
        self._changed = threading.Condition()
        self._hurried = self._closing = False
        self._delivered = self._failed_in_a_row = self._failures = 0
        self._error: str | None = None
        self._thread: threading.Thread | None = None

    def begin(self, last_committed: int) -> None:
        """Take up what an earlier run has left, and start to deliver."""
        self.outbox.forget_after(last_committed)
        self._waiting, self._delivered = self.outbox.waiting(), self.outbox.delivered()
        self._thread = threading.Thread(target=self._deliver_all, name=f"side-{self.sink.name}", daemon=True)
        self._thread.start()

    def room(self) -> int:
        """How many more rows may wait."""
        with self._changed:
            return max(0, self._max_waiting - sum(self._waiting.values()))

    def hand_over(self, waiting: Waiting) -> None:
        """The rows of a micro-batch: durable when this returns, delivered later."""
        self.outbox.put(waiting)
        with self._changed:
            self._waiting[waiting.batch_id] = waiting.rows
            self._changed.notify_all()

    def told(self) -> dict[str, Any]:
        """For status and metrics."""
        with self._changed:
            return {
                "waiting": sum(self._waiting.values()), "delivered": self._delivered,
                "up": not self._failed_in_a_row, "error": self._error,
            } | ({"damaged": aside} if (aside := self.outbox.aside()) else {})  # fmt: skip

    def undelivered(self) -> int:
        """Rows that wait for a sink that is away; 0 while it takes them."""
        with self._changed:
            return sum(self._waiting.values()) if self._failed_in_a_row else 0

    def settle(self, seconds: float, tries: int = 1) -> int:
        """Wait until all is delivered, time is up, or the sink has failed as often from now on. Gives what still waits.

        With one try, a sink that is known to be away is not waited for at all.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            until = self._failures + tries
            self._hurried = True
            self._changed.notify_all()
            while self._waiting and self._failures < until and time.monotonic() < deadline:
                if tries == 1 and self._failed_in_a_row:
                    break
                self._changed.wait(_TICK)
            self._hurried = False
            return sum(self._waiting.values())

    def write_rest(self, path: Path) -> None:
        """What still waits as lines of JSON, for people: the pipeline does not start again."""
        texts: list[str] = []
        for batch_id in self.outbox.waiting():
            waiting = self._read(batch_id)
            texts += [] if waiting is None else [*self.side_records.texts(waiting.batches), *waiting.texts]
        write_whole(path, "".join(f"{text}\n" for text in texts))

    def close(self) -> None:
        """Stop delivering. A write that hangs is left to itself."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1.0)
        self.sink.close()

    def _deliver_all(self) -> None:
        while (batch_id := self._next()) is not None:
            try:
                waiting = self._read(batch_id)
                if waiting is None:
                    continue
                self._deliver(waiting)
            except Exception as failed:  # noqa: BLE001  # whatever a sink raises, the rows stay and are tried again
                self._note_failure(failed)
            else:
                self._note_success(batch_id)

    def _deliver(self, waiting: Waiting) -> None:
        """Write a batch. If the sink is there and refuses a record, cut the longest ones until it takes the batch."""
        batch = self._build(waiting, None)
        try:
            return self.sink.write(batch)
        except Exception as failed:
            if not self.sink.refuses_record(failed):
                raise
            refused = failed
        for max_bytes in _shorter_than(_longest(batch)):
            _log.warning(
                "side sink `%s` refuses a record of batch %d (%s); records of more than %s bytes are cut",
                self.sink.name, waiting.batch_id, self._redact(gist(refused)), f"{max_bytes:,}",
            )  # fmt: skip
            try:
                return self.sink.write(self._build(waiting, max_bytes))
            except Exception as failed:
                if not self.sink.refuses_record(failed):
                    raise
                refused = failed
        raise refused

    def _read(self, batch_id: int) -> Waiting | None:
        """What waits; None where it cannot be read, and was set aside."""
        try:
            return self.outbox.read(batch_id)
        except StateError as broken:
            self._write_side_rows(batch_id, broken)
            return None

    def _write_side_rows(self, batch_id: int, broken: StateError) -> None:
        """A file that cannot be read is kept under another name, and delivery goes on behind it."""
        moved = self.outbox.set_aside(batch_id, self._waiting.get(batch_id, 0))
        with self._changed:
            rows = self._waiting.pop(batch_id, 0)
            self._changed.notify_all()
        where = ", ".join(map(str, moved)) or self.outbox.folder
        what = "side rows of batch %d for sink `%s` cannot be read, and %s rows are not delivered: %s. Kept: %s"
        _log.error(what, batch_id, self.sink.name, f"{rows:,}", broken.message, where)

    def _next(self) -> int | None:
        """The earliest batch that waits, once it may be tried; None when the channel closes."""
        with self._changed:
            failed = time.monotonic()
            while not self._closing and time.monotonic() < failed + self._pause():
                self._changed.wait(_TICK)
            self._changed.wait_for(lambda: self._closing or self._waiting)
            return None if self._closing else min(self._waiting)

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
            first, rows = self._failed_in_a_row == 1, sum(self._waiting.values())
            self._changed.notify_all()
        if first:
            _log.warning(
                "side sink `%s` fails: %s. %s rows are waiting, and the write is retried; the main output continues",
                self.sink.name, self._error, f"{rows:,}",
            )  # fmt: skip

    def _note_success(self, batch_id: int) -> None:
        delivered = self.outbox.note_delivered(batch_id, self._waiting.get(batch_id, 0))
        with self._changed:
            back, self._failed_in_a_row, self._error = self._failed_in_a_row, 0, None
            self._waiting.pop(batch_id, None)
            self._delivered = delivered
            rows = sum(self._waiting.values())
            self._changed.notify_all()
        if back:
            _log.warning("side sink `%s` accepts rows again; %s are waiting", self.sink.name, f"{rows:,}")


def _longest(batch: SinkBatch) -> int | None:
    """Bytes of the longest record; None where the records are not in this process."""
    if batch.table is None or not batch.table.num_rows:
        return None
    return int(pc.max(pc.binary_length(batch.table.column(0))).as_py())


def _shorter_than(longest: int | None) -> list[int]:
    """Only lengths that change something: a sink may keep the other records of a batch that it refused."""
    return [max_bytes for max_bytes in MAX_BYTES if longest is None or longest > max_bytes]
