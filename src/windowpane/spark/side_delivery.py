"""Delivers a batch of side rows to its sink, with shorter records if the sink refuses long ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import pyarrow.compute as pc

from windowpane.checkpoint.outbox import PendingBatch
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import gist

MAX_BYTES = (900_000, 60_000, 4_000, 1_000)
"""Limits for the length of records, tried in turn when a sink refuses whole ones. Kafka's usual limit is 1 MiB."""
Build: TypeAlias = Callable[[PendingBatch, int | None], SinkBatch]
"""Makes a batch for a sink, with records of at most so many bytes."""
_log = logging.getLogger("windowpane.sinks")


class SideDelivery:
    """Writes batches to one sink. `redact` removes secrets from messages."""

    def __init__(self, sink: Sink, build: Build, redact: Callable[[str], str]) -> None:
        self._sink, self._build, self._redact = sink, build, redact

    def deliver(self, pending: PendingBatch) -> None:
        """Write a batch. If the sink refuses a record, cut the longest ones until it takes the batch."""
        batch = self._build(pending, None)
        batch.check_lease()
        try:
            return self._sink.write(batch)
        except Exception as failed:
            if not self._sink.refuses_record(failed):
                raise
            refused = failed
        for max_bytes in _shorter_than(_longest(batch)):
            _log.warning(
                "side sink `%s` refuses a record of batch %d (%s); records of more than %s bytes are cut",
                self._sink.name, pending.batch_id, self._redact(gist(refused)), f"{max_bytes:,}",
            )  # fmt: skip
            try:
                return self._sink.write(self._build(pending, max_bytes))
            except Exception as failed:
                if not self._sink.refuses_record(failed):
                    raise
                refused = failed
        raise refused


def _longest(batch: SinkBatch) -> int | None:
    """Bytes of the longest record; None if the records are not in this process."""
    if batch.table is None or not batch.table.num_rows:
        return None
    return int(pc.max(pc.binary_length(batch.table.column(0))).as_py())


def _shorter_than(longest: int | None) -> list[int]:
    """Only lengths that change something: a sink may keep the other records of a batch that it refused."""
    return [max_bytes for max_bytes in MAX_BYTES if longest is None or longest > max_bytes]
