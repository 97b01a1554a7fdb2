"""One micro-batch of a job on the driver: gather what all transforms give, let each check its account and write its
sinks, then write the ledger.

Spark commits the batch after this returns. If the process dies in between, the batch is replayed with the same id, the
same rows and the same results, and sinks keep one copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.core.windows.cut import Cut
from windowpane.spark.batch import BatchRunner
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.gathering import Gathered, Gathering
from windowpane.spark.job_stages import JobStages
from windowpane.spark.job_versions import Standing, united
from windowpane.spark.replaying import encoded_messages


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
    """Versions of transforms, by the tags of their states; those of one transform in order."""
    dropped: Sequence[str] = ()
    """Tags of transforms that the job no longer has."""
    job: JobStages | None = None
    """To pack messages as tasks do."""

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(self.spark, {tag: each.results for tag, each in self.transforms.items()}, self.calls)

    @cached_property
    def _ledger(self) -> Ledger:
        """Remembers the digest of the entry that it has read or written last."""
        return self.checkpoint.ledger

    def _send_context(self, batch_id: int, standing: Standing) -> None:
        """Send the batch's timestamp and the watermarks for late rows to the tasks, before any of them starts."""
        known = {
            tag: self.transforms[tag].before(batch_id, entry)
            for tag, entry in standing.before.items()
            if tag not in standing.ending
        }
        context = BatchContext(
            batch_id, self.checkpoint.log.timestamp_us(batch_id), known, alone=list(standing.alone),
            ending=list(standing.ending), dropped=list(self.dropped),
        )  # fmt: skip
        context = replace(context, replayed=self._replayed(context, standing))
        self.spark.sparkContext.setLocalProperty(PROPERTY, context.as_property())

    def _replayed(self, context: BatchContext, standing: Standing) -> list[str]:
        """Messages with side rows that transforms read once more."""
        found: dict[str, list[bytes]] = {}
        for tag in context.before:
            replaying = self.transforms[tag].replaying
            if replaying is not None and self.job is not None:
                sent = replaying.messages(self.job.members[tag], tag, context, standing.before[tag])
                found |= {tag: sent} if sent is not None else {}
        return encoded_messages(self.job, found) if self.job is not None else []

    def _standing(self, entries: Mapping[str, Entry], of_versions: Mapping[str, Entry]) -> Standing:
        return Standing.of([each.version for each in self.transforms.values()], entries, of_versions)

    def running(self, batch_id: int) -> list[str]:
        """The tags of what runs in a batch."""
        return list(self._standing(*self._ledger.read_with_versions(batch_id - 1)).before)

    def run(self, packed: DataFrame, batch_id: int, *, resumed: bool, final: bool = False) -> None:
        """Process one batch of the merge stage's output.

        `resumed`: this is the first batch after a restart. An attempt that was never committed may have written rows
        under its id, so sinks that keep one copy get the batch even if it has no rows. `final`: the batch of a graceful
        end.
        """
        self.lock.check()
        started, (before, of_versions) = time.monotonic(), self._ledger.read_with_versions(batch_id - 1)
        standing = self._standing(before, of_versions)
        if not final:
            self._send_context(batch_id, standing)
        gathered = self._gathering.gather(packed)
        job = time.monotonic() - started
        try:
            entries = self._processed(batch_id, standing, gathered, resumed=resumed, final=final)
        finally:
            if any(each.has_files for each in gathered.values()):
                self.checkpoint.overflow.clear()
        took = round(time.monotonic() - started, 3)
        entries = {
            tag: replace(entry, seconds=took, spent=entry.spent | {"job": round(job, 6)})
            for tag, entry in entries.items()
        }
        whole = self._united(entries, before)
        self._ledger.write_all(whole, self._of_versions(batch_id, entries, of_versions))
        for key, entry in whole.items():
            self._versions[key][-1].watch(entry)

    def _processed(
        self,
        batch_id: int,
        standing: Standing,
        gathered: Mapping[str, Gathered],
        *,
        resumed: bool,
        final: bool,
    ) -> dict[str, Entry]:
        """Check the accounts of all transforms before anything is written."""
        began = time.monotonic()
        accounts = {
            tag: self.transforms[tag].account(
                batch_id, entry, gathered[tag], final=final, ends=tag in standing.ending and not final,
                cut=self._cut(tag, standing),
            )
            for tag, entry in standing.before.items()
        }  # fmt: skip
        entries: dict[str, Entry] = {}
        for tag, (entry, split) in accounts.items():
            delivered = self.transforms[tag].deliver(
                gathered[tag], entry, split, before=standing.before[tag], resumed=resumed
            )
            now = time.monotonic()
            entries[tag] = replace(delivered, spent=delivered.spent | {"sink": round(now - began, 6)})
            began = now
        return entries

    @cached_property
    def _versions(self) -> dict[str, list[BatchRunner]]:
        """The versions of each transform, by what names it in the ledger."""
        found: dict[str, list[BatchRunner]] = {}
        for each in self.transforms.values():
            found.setdefault(each.version.key, []).append(each)
        return found

    def _cut(self, tag: str, standing: Standing) -> Cut | None:
        """The cut of a version beside which others run."""
        version = self.transforms[tag].version
        beside = [each for each in self._versions[version.key] if each.version.tag in standing.before]
        if len(beside) == 1:
            return None
        return replace(version.cut, from_us=None) if tag in standing.alone else version.cut

    def _united(self, entries: Mapping[str, Entry], before: Mapping[str, Entry]) -> dict[str, Entry]:
        """The entry of each transform."""
        found: dict[str, Entry] = {}
        for key, versions in self._versions.items():
            own = [entries[each.version.tag] for each in versions if each.version.tag in entries]
            if own:
                found[key] = own[0] if len(versions) == 1 else united(own, before.get(key))
        return found

    def _of_versions(
        self, batch_id: int, entries: Mapping[str, Entry], before: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """The entries of versions of transforms that have several, and of those that have ended."""
        several = [each for own in self._versions.values() for each in own if len(own) > 1 or each.version.leaves]
        ended = {tag: replace(entry, batch_id=batch_id) for tag, entry in before.items() if entry.ended}
        found = {each.version.tag: {**entries, **ended}.get(each.version.tag) for each in several}
        return {tag: entry for tag, entry in found.items() if entry is not None}
