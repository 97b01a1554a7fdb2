"""The side output of a transform: rows go to the channels of their sinks, or into the reinjection queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.outbox import PendingBatch
from windowpane.checkpoint.run_lock import RunLock
from windowpane.connectors.sinks import SinkBatch, unguarded
from windowpane.spark.channels import LAST_TRIES, SideChannel
from windowpane.spark.recent_rows import RecentRows
from windowpane.spark.reinjection import Reinjection, ReinjectionSplit
from windowpane.spark.side_delivery import Build
from windowpane.spark.unpacking import SideRecords

SETTLE_SECONDS = 60.0
IN_PROCESS = 5_000
"""Up to this number, the driver makes JSON of side rows; workers do if there are more."""


@dataclass(frozen=True)
class SideOutput:
    """Channels by the names of their sinks. A kind without one is counted and goes nowhere."""

    channels: Mapping[str, SideChannel] = field(default_factory=dict)
    reinjection: Reinjection | None = None
    recent: RecentRows | None = None
    """Sees the rows that channels get."""

    def wanted(self, counts: Mapping[str, int]) -> bool:
        """Whether any of these rows go anywhere."""
        routed = {kind for channel in self.channels.values() for kind in channel.side_records.kinds}
        routed |= set(self.reinjection.limits) if self.reinjection else set()
        return any(counts.get(kind) for kind in routed)

    def split(self, rows: Sequence[pa.RecordBatch], elapsed_us: int) -> ReinjectionSplit:
        """Which rows are read again."""
        if self.reinjection is None:
            return ReinjectionSplit(tuple(rows))
        return self.reinjection.split(rows, _seconds(elapsed_us))

    def allowed(self, counts: Mapping[str, int], elapsed_us: int) -> dict[str, int]:
        """How many rows of each kind their channel takes: its limit per second since the last batch, at most what it
        has room for. Kinds without a channel have no limit.

        The time between batches is that of their timestamps, so a replayed batch gets the same numbers.
        """
        found = dict(counts)
        for channel in self.channels.values():
            room, limits = channel.room(), dict(channel.side_records.limits)
            for kind in channel.side_records.kinds:
                count = counts.get(kind, 0)
                limit = int(limits[kind] * _seconds(elapsed_us)) if kind in limits else count
                found[kind] = min(count, limit, room)
                room -= found[kind]
        return found

    def hand_over(
        self,
        batch_id: int,
        rows: Sequence[pa.RecordBatch],
        allowed: Mapping[str, int],
        *,
        error_records: Callable[[SideRecords], list[str]],
        clear: bool,
        final: bool = False,
    ) -> None:
        """Give each channel its rows. `clear`: sinks that keep one copy get the batch even without rows."""
        for channel in self.channels.values():
            side_records = channel.side_records
            texts = error_records(side_records) if "error" in side_records.kinds else []
            pending = PendingBatch(batch_id, side_records.chosen(rows, allowed), texts, final)
            if pending.rows or (clear and channel.sink.delivery == "exactly_once"):
                channel.hand_over(pending)
                if self.recent is not None:
                    self.recent.note_side(side_records, pending)

    def open(self, spark: SparkSession) -> None:
        """Called before the first batch; ConfigError for a mistake that no retry can correct."""
        for channel in self.channels.values():
            channel.sink.open(spark, identified=False)

    def begin(self, last_committed: int) -> None:
        for channel in self.channels.values():
            channel.begin(last_committed)
        if self.reinjection is not None:
            self.reinjection.queue.forget_after(last_committed)

    def undelivered(self) -> dict[str, int]:
        """Undelivered rows of unreachable sinks, by sink."""
        found = {name: channel.undelivered() for name, channel in self.channels.items()}
        return {name: rows for name, rows in found.items() if rows}

    def handed_over(self, batch_id: int) -> dict[str, int]:
        """Rows that batches up to this one have put into each sink's outbox, for the ledger."""
        found = {name: channel.handed_over(batch_id) for name, channel in self.channels.items()}
        return {name: rows for name, rows in found.items() if rows is not None}

    def status(self) -> dict[str, dict[str, object]]:
        """For status and metrics."""
        return {name: channel.status() for name, channel in self.channels.items()}

    def settle(self, *, for_good: bool) -> dict[str, int]:
        """Called before the pipeline ends; returns undelivered rows by sink. `for_good`: it will not start again."""
        tries = LAST_TRIES if for_good else 1
        left = {name: channel.settle(SETTLE_SECONDS, tries) for name, channel in self.channels.items()}
        return {name: rows for name, rows in left.items() if rows}

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()


def side_batches(
    spark: SparkSession,
    transform: str,
    whole: SideRecords,
    *,
    run_id: Callable[[], str],
    is_unnamed: Callable[[int], bool],
    lock: RunLock | None = None,
) -> Build:
    """Builds batches for a sink from undelivered side rows. `lock`: of the checkpoint, if this process holds it."""

    def build(pending: PendingBatch, max_bytes: int | None) -> SinkBatch:
        side_records = replace(whole, max_bytes=max_bytes)
        frame, table = partial(_in_workers, spark, side_records, pending), None
        if pending.rows <= IN_PROCESS:
            records = [*side_records.texts(pending.batches), *side_records.fitted(pending.texts)]
            table = pa.table({"value": pa.array(records, pa.string())})
            frame = partial(spark.createDataFrame, table, "value string")
        return SinkBatch(
            pending.batch_id, frame, side_records=True, transform=transform, table=table, rows=pending.rows,
            run=run_id(), final=pending.final, was_unnamed=is_unnamed(pending.batch_id),
            fence=0 if lock is None else lock.fence, check_lease=unguarded if lock is None else lock.check,
        )  # fmt: skip

    return build


def _in_workers(spark: SparkSession, side_records: SideRecords, pending: PendingBatch) -> DataFrame:
    payloads = [PendingBatch(pending.batch_id, [batch]).packed() for batch in pending.batches]
    packed = spark.createDataFrame(pa.table({"payload": pa.array(payloads, pa.binary())}), "payload binary")
    records = packed.repartition(max(1, len(payloads))).mapInArrow(side_records.run, "value string")
    beside = pa.table({"value": pa.array(side_records.fitted(pending.texts), pa.string())})
    texts = spark.createDataFrame(beside, "value string")
    return records.unionAll(texts)


def _seconds(elapsed_us: int) -> float:
    return max(1.0, elapsed_us / 1_000_000)
