"""The results of a transform on their way to all of its sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from windowpane.spark.result_channel import ResultChannel
from windowpane.spark.side_output import SETTLE_SECONDS


@dataclass(frozen=True)
class ResultOutput:
    """A channel for each sink."""

    channels: Sequence[ResultChannel] = ()

    def takers(self, rows: int, *, resumed: bool) -> list[ResultChannel]:
        """Channels that get a batch: those of exactly-once sinks also without rows, if it may have run before."""
        return [each for each in self.channels if rows or (resumed and each.sink.delivery == "exactly_once")]

    def open(self, spark: SparkSession, columns: Sequence[str], *, identified: bool, is_new: bool) -> None:
        """Called before the first batch. `is_new`: no batch has run on the checkpoint; a sink that is away then is
        taken for a mistake. Later, its results wait.
        """
        for channel in self.channels:
            channel.open(spark, columns, identified=identified, must_be_there=is_new)

    def begin(self, last_committed: int) -> None:
        """Deliver what an earlier run has left."""
        for channel in self.channels:
            channel.begin(last_committed)

    def check(self) -> None:
        """Raises the reason if results wait that can never be delivered."""
        for channel in self.channels:
            channel.check()

    def caught_up(self, seconds: float) -> bool:
        """Whether nothing waits, within `seconds`; SinkError if a sink has been away for too long by now."""
        return all(channel.caught_up(seconds) for channel in self.channels)

    def undelivered(self) -> dict[str, int]:
        """Results that wait, by sink."""
        found = {channel.sink.name: channel.undelivered() for channel in self.channels}
        return {name: rows for name, rows in found.items() if rows}

    def handed_over(self, batch_id: int) -> dict[str, int]:
        """Results that batches up to this one have put into each outbox, for the ledger."""
        found = {channel.sink.name: channel.handed_over(batch_id) for channel in self.channels}
        return {name: rows for name, rows in found.items() if rows is not None}

    def status(self) -> dict[str, dict[str, Any]]:
        """By sink, for status and metrics."""
        return {channel.sink.name: channel.status() for channel in self.channels}

    def settle(self) -> dict[str, int]:
        """Called before the pipeline stops, to start again later. Returns results that still wait, by sink."""
        left = {channel.sink.name: channel.settle(SETTLE_SECONDS) for channel in self.channels}
        return {name: rows for name, rows in left.items() if rows}

    def close(self) -> None:
        for channel in self.channels:
            channel.close()
