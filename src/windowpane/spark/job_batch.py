"""One micro-batch of a job on the driver: gather what all transforms give, let each check its account and write its
sinks, then write the ledger.

Spark commits the batch after this returns. If the process dies in between, the batch is replayed with the same id, the
same rows and the same results, and sinks keep one copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.spark.batch import BatchRunner
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.gathering import Gathered, Gathering


@dataclass(kw_only=True)
class JobRunner:
    """Processes the micro-batches of a job, called by foreachBatch."""

    spark: SparkSession
    calls: DriverCalls
    checkpoint: Checkpoint
    """Of any of the transforms: the parts that they share are used."""
    lock: RunLock
    """Of the checkpoint, which this process holds."""
    transforms: Mapping[str, BatchRunner]
    """By tag."""

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(self.spark, {tag: each.results for tag, each in self.transforms.items()}, self.calls)

    def _send_context(self, batch_id: int, before: Mapping[str, Entry]) -> None:
        """Send the batch's timestamp and the watermarks for late rows to the tasks, before any of them starts."""
        known = {tag: each.before(batch_id, before.get(tag)) for tag, each in self.transforms.items()}
        context = BatchContext(batch_id, self.checkpoint.log.timestamp_us(batch_id), known)
        self.spark.sparkContext.setLocalProperty(PROPERTY, context.as_property())

    def run(self, packed: DataFrame, batch_id: int, *, resumed: bool, final: bool = False) -> None:
        """Process one batch of the merge stage's output.

        `resumed`: this is the first batch after a restart. An attempt that was never committed may have written rows
        under its id, so sinks that keep one copy get the batch even if it has no rows. `final`: the batch of a graceful
        end.
        """
        self.lock.check()
        started, before = time.monotonic(), self.checkpoint.ledger.read_all(batch_id - 1)
        if not final:
            self._send_context(batch_id, before)
        gathered = self._gathering.gather(packed)
        job = time.monotonic() - started
        try:
            entries = self._processed(batch_id, before, gathered, resumed=resumed, final=final)
        finally:
            if any(each.has_files for each in gathered.values()):
                self.checkpoint.overflow.clear()
        took = round(time.monotonic() - started, 3)
        entries = {
            tag: replace(entry, seconds=took, spent=entry.spent | {"job": round(job, 6)})
            for tag, entry in entries.items()
        }
        self.checkpoint.ledger.write_all(entries)
        for tag, entry in entries.items():
            self.transforms[tag].watch(entry)

    def _processed(
        self,
        batch_id: int,
        before: Mapping[str, Entry],
        gathered: Mapping[str, Gathered],
        *,
        resumed: bool,
        final: bool,
    ) -> dict[str, Entry]:
        """Check the accounts of all transforms before anything is written."""
        began = time.monotonic()
        accounts = {
            tag: each.account(batch_id, before.get(tag), gathered[tag], final=final)
            for tag, each in self.transforms.items()
        }
        entries: dict[str, Entry] = {}
        for tag, (entry, split) in accounts.items():
            delivered = self.transforms[tag].deliver(gathered[tag], entry, split, resumed=resumed)
            now = time.monotonic()
            entries[tag] = replace(delivered, spent=delivered.spent | {"sink": round(now - began, 6)})
            began = now
        return entries
