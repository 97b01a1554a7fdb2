"""A transform's part of the checkpoint: its plan and outboxes, and what it shares with the other transforms of its job,
such as Spark's own checkpoint and the ledger.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from windowpane.checkpoint.agreement import check_agreement
from windowpane.checkpoint.closed_windows import ClosedWindows
from windowpane.checkpoint.evolution import begun, change_to, check_change, check_start, evolved, handed_over
from windowpane.checkpoint.generations import remove_others, spark_folder
from windowpane.checkpoint.jobs import JobFile, JobRecord, job_store, recorded_jobs
from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.outbox import Outbox
from windowpane.checkpoint.outbox_check import check_outbox
from windowpane.checkpoint.outbox_files import OutboxFiles
from windowpane.checkpoint.overflow_folder import OverflowFolder
from windowpane.checkpoint.plan_record import (
    PlanFile,
    PlanRecord,
    check_reinjection,
    check_shards,
    check_spread,
)
from windowpane.checkpoint.records import FORMAT, encoded, read_object
from windowpane.checkpoint.reinjection_queue import ReinjectionQueue
from windowpane.checkpoint.repairs import Repairs
from windowpane.checkpoint.replays import Replays
from windowpane.checkpoint.result_outbox import ResultOutbox
from windowpane.checkpoint.savepoint_taking import RUNS_FILE
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.table_versions import TableVersions
from windowpane.checkpoint.topic_identities import TopicIdentities
from windowpane.checkpoint.unreadable_files import UnreadableFiles
from windowpane.checkpoint.zone_record import warn_of_changed_rules, zones_of
from windowpane.errors import StateError
from windowpane.plan.build import Plan

_FINISHED = "finished.json"


@dataclass(frozen=True)
class Checkpoint:
    """`spark` is Spark's own checkpoint; the rest is windowpane's. Not to be used after a rescale."""

    store: Store
    """What belongs to the transform alone."""
    job: Store | None = None
    """What the transforms of a job share; None if the transform is a job by itself."""
    tag: str = ""
    """Which of these transforms it is."""
    job_name: str = ""
    number: int | None = None
    """Which version of the transform it is; None: the current one."""

    @cached_property
    def version(self) -> int:
        """Each hand-over to another plan makes the next version, with a state and outboxes of its own."""
        if self.number is not None:
            return self.number
        record = self.plan.read()
        return 1 if record is None else record.version

    @property
    def state_tag(self) -> str:
        """What names the state of this version in the job."""
        return f"{self.tag}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return suffix_of(self.version)

    def of_version(self, number: int) -> Checkpoint:
        return replace(self, number=number)

    @property
    def address(self) -> str:
        """For messages."""
        return self.store.address()

    @property
    def job_address(self) -> str:
        """Of what the transforms of a job share, for messages."""
        return self.shared.address()

    @property
    def shared(self) -> Store:
        """What the transforms of a job share, or all that a transform has."""
        return self.job or self.store

    @property
    def spark(self) -> str:
        """The path or URI of Spark's own checkpoint."""
        return self.shared.spark_path(self._spark_folder)

    @cached_property
    def _spark_folder(self) -> str:
        record = self.plan.read() if self.job is None else JobFile(self.job).read()
        return spark_folder(0 if record is None else record.generation)

    @property
    def log(self) -> OffsetLog:
        return OffsetLog(self.shared.below(self._spark_folder))

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.shared.below("ledger"), self.tag)

    @property
    def plan(self) -> PlanFile:
        return PlanFile(self.store)

    @property
    def queue(self) -> ReinjectionQueue:
        """Side rows that are read again."""
        return ReinjectionQueue(self.shared.below("reinject"))

    @property
    def unreadable(self) -> UnreadableFiles:
        return UnreadableFiles(self.shared.below("damaged"))

    @property
    def tables(self) -> TableVersions:
        """Copies of static tables that are reread."""
        return TableVersions(self.shared.below("tables"))

    @property
    def topics(self) -> TopicIdentities:
        return TopicIdentities(self.shared)

    @property
    def overflow(self) -> OverflowFolder:
        return OverflowFolder(self.shared)

    @property
    def closed(self) -> ClosedWindows:
        """Accumulators of closed windows, for repairs."""
        return ClosedWindows(self.store.below(f"closed{self._suffix}"))

    @property
    def repairs(self) -> Repairs:
        return Repairs(self.store.below("repairs"))

    @property
    def replays(self) -> Replays:
        """Side rows that are read once more."""
        return Replays(self.store.below("replays"))

    def runs(self) -> list[str]:
        """The identities under which batches were written: those before going back to a savepoint, and the present."""
        earlier = read_object(self.shared, RUNS_FILE, {"runs": list}) or {"runs": []}
        return [*map(str, earlier["runs"]), self.log.run_id()]

    def outbox(self, sink: str) -> Outbox:
        """Undelivered side rows of a sink."""
        return Outbox(self.store.below(f"outbox/{sink}{self._suffix}"))

    def outboxes(self) -> dict[str, Outbox]:
        """The outboxes of all sinks that side rows have ever been routed to."""
        return {name: Outbox(self.store.below(f"outbox/{name}")) for name in self.store.below("outbox").names()}

    def result_outbox(self, sink: str) -> ResultOutbox:
        """Results that a sink which is away has not taken."""
        return ResultOutbox(self.store.below(f"results-outbox/{sink}{self._suffix}"))

    def result_outboxes(self) -> dict[str, ResultOutbox]:
        """The outboxes of all sinks that results have ever waited for."""
        names = self.store.below("results-outbox").names()
        return {name: ResultOutbox(self.store.below(f"results-outbox/{name}")) for name in names}

    def all_outboxes(self) -> list[Outbox | ResultOutbox]:
        """Of results and of side rows."""
        return [*self.result_outboxes().values(), *self.outboxes().values()]

    def claim(
        self, plan: Plan, shards: int | None, *, spread: bool | None = None, evolve: bool = False, number: int = 1
    ) -> PlanRecord:
        """Make sure that this plan may run here. Only the holder of the lease may call it.

        A new checkpoint takes on the plan, as version `number`. One of another query does if that can go on with its
        state, or have its windows from a cut on, and the user has agreed (`evolve`). StateError if not, or if the
        checkpoint has another number of shards or other stateful stages, is finished or damaged.
        """
        record = self.admit(plan, shards, spread=spread, evolve=evolve)
        self.store.sweep()
        self.shared.sweep()
        remove_others(self.shared, self._spark_folder)
        self.ledger.sweep()
        self.queue.sweep()
        for outbox in self.all_outboxes():
            outbox.sweep()
        if record is None:
            new = PlanRecord.of(plan, shards or os.cpu_count() or 1, spread=spread)
            record = begun(replace(self._with_job(new), version=number), plan)
            self.plan.create(record)
            return record
        self._take_over()
        if record.unnamed_until is None:
            record = replace(record, unnamed_until=self.log.last_committed() + 1)
        change, last = change_to(record, plan), self.ledger.last()
        if change.kind == "hand_over":
            record = handed_over(self._without_ended(record), plan, change, last)
        else:
            record = replace(evolved(self._without_ended(record), plan, change, last), definition=plan.definition)
            record = replace(record, scanned=plan.scan is not None)
        zones = zones_of(plan)
        if record.time_zones != zones:
            warn_of_changed_rules(record.time_zones, zones)
            record = replace(record, time_zones=zones)
        self.plan.write(record)
        return record

    def _without_ended(self, record: PlanRecord) -> PlanRecord:
        """Without earlier versions that have ended, and whose results and side rows sinks have taken."""
        versions = self.ledger.read_with_versions(self.log.last_committed())[1]
        if not any(f"{self.tag}{suffix_of(each.version)}" in versions for each in (*record.earlier, record)):
            return record
        return replace(record, earlier=tuple(each for each in record.earlier if self._is_needed(each, versions)))

    def _is_needed(self, earlier: PlanRecord, versions: Mapping[str, Entry]) -> bool:
        own = self.of_version(earlier.version)
        entry = versions.get(own.state_tag)
        if entry is not None and not entry.ended:
            return True
        boxes: list[tuple[str, OutboxFiles[Any]]] = [*self.outboxes().items(), *self.result_outboxes().items()]
        own_ones = (box for name, box in boxes if name == f"{name.partition('~')[0]}{suffix_of(earlier.version)}")
        return any(box.pending() for box in own_ones)

    def _take_over(self) -> None:
        """A holder before this one may have been away in the middle of a change: see that the change fails."""
        for outbox in self.all_outboxes():
            outbox.take_over()
        self.tables.take_over()
        planned = self.log.last_planned()
        if planned > self.log.last_committed():
            self.unreadable.take_over(planned)

    def admit(
        self, plan: Plan, shards: int | None, *, spread: bool | None = None, evolve: bool = False
    ) -> PlanRecord | None:
        """The same without writing; None for a new checkpoint. Needs no Spark."""
        if self.is_finished():
            raise StateError(
                "CHECKPOINT_FINISHED",
                f"transform `{plan.transform}` has ended gracefully: its checkpoint {self.address} is finished",
                "every window has been emitted. To process the input anew: windowpane reset",
            )
        committed = self.log.last_committed()
        if self._joins():
            check_start(None, plan, self._read_us(committed))
            return None
        check_agreement(self.log, self.ledger, self.plan)
        self.queue.check(self.ledger, self.log, committed)
        check_outbox(self.ledger, self.outbox, committed, lambda entry: entry.outbox)
        check_outbox(self.ledger, self.result_outbox, committed, lambda entry: entry.result_outbox)
        record = self._read()
        if record is not None:
            check_start(record, plan, None)
            check_change(record, plan, self.address, evolve=evolve, last=self.ledger.last())
            check_reinjection(record, plan, self.address)
            check_shards(record, shards, self.address)
            check_spread(record, plan, self.address, spread=spread)
        return record

    def _read_us(self, committed: int) -> int | None:
        """The largest event time that any transform of the job has read."""
        entries = self.ledger.read_with_versions(committed)[0].values() if committed >= 0 else ()
        known = [us for entry in entries for us in (*entry.maxima.values(), entry.latest_us) if us is not None]
        return max(known, default=None)

    def _joins(self) -> bool:
        """Whether the transform is new to a job that may have run without it."""
        shared = None if self.job is None else JobFile(self.job).read()
        if shared is None or self.plan.exists():
            return False
        return self.ledger.last() is None or self.store.address().rpartition("/")[2] in shared.numbers

    def record(self) -> PlanRecord:
        """The plan that the state was made with; StateError if there is no checkpoint here."""
        record = self._read()
        if record is None:
            raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {self.address}")
        return record

    def _read(self) -> PlanRecord | None:
        record = self.plan.read()
        return None if record is None else self._with_job(record)

    def _with_job(self, record: PlanRecord) -> PlanRecord:
        """With what all transforms of the job have in common."""
        shared = None if self.job is None else JobFile(self.job).read()
        if shared is None:
            return record
        return replace(
            record, shards=shared.shards, ticks=shared.ticks, generation=shared.generation, job=self.job_name,
            steps=shared.steps, sources=shared.sources,
        )  # fmt: skip

    def dropped(self) -> list[str]:
        """What names the state of transforms that the job no longer has."""
        shared = None if self.job is None else JobFile(self.job).read()
        return [] if shared is None else shared.dropped

    def note_query(self, steps: int, sources: Sequence[str]) -> None:
        """Record the stateful stages and the sources of the query, if they are not known: Spark numbers both.

        Only the holder of the lease may.
        """
        shared = None if self.job is None else JobFile(self.job).read()
        record = self.plan.read() if shared is None else None
        known = shared or record
        if known is None or (known.steps is not None and known.sources):
            return
        steps, sources = known.steps or steps, known.sources or list(sources)
        if self.job is not None and shared is not None:
            JobFile(self.job).write(replace(shared, steps=steps, sources=sources))
        if record is not None:
            self.plan.write(replace(record, steps=steps, sources=sources))

    def finish(self, entry_id: int) -> None:
        """Mark the checkpoint as finished after a graceful end: nothing starts here again."""
        content = {"format": FORMAT, "batch_id": entry_id, "fence": self.store.fence}
        self.shared.replace(_FINISHED, encoded(content, indent=None))
        # This checks the lease: who takes over from now on finds the mark, and starts nothing.
        self.shared.clear("reinject")

    def is_finished(self) -> bool:
        """Whether there is a mark, and no process has gone on since: one that was away may have written it late."""
        found = read_object(self.shared, _FINISHED, {"batch_id": int})
        if found is None or "fence" not in found:  # earlier versions
            return found is not None
        last = self.ledger.last()
        return last is None or (last.final and last.batch_id == found["batch_id"])

    def write_undelivered(self, sink: str, texts: Sequence[str]) -> str:
        """Write side rows that a graceful end could not deliver as lines of JSON, for people. Returns the address."""
        name = f"undelivered-{sink}.jsonl"
        self.store.replace(name, "".join(f"{text}\n" for text in texts).encode("utf-8", "replace"))
        return self.store.address(name)


def transform_checkpoint(store: Store, transform: str, jobs: Mapping[str, JobRecord] | None = None) -> Checkpoint:
    """The checkpoint of a transform in a pipeline's store. `jobs`: as recorded there, if they are known."""
    known = recorded_jobs(store) if jobs is None else jobs
    own = store.below(transform)
    for name, record in known.items():
        if transform in record.members:
            tag = "" if record.host == transform else transform
            return Checkpoint(own, job_store(store, name, record.host), tag, name)
    return Checkpoint(own)


def suffix_of(version: int) -> str:
    """What the names of a version's state, outboxes and batches in sinks end in."""
    return f"~{version}" if version > 1 else ""


def open_plans(store: Store, plans: Sequence[Plan]) -> Sequence[Plan]:
    """Transforms to start: a graceful end that was cut short may have finished only some of them."""
    jobs = recorded_jobs(store)
    return [plan for plan in plans if not transform_checkpoint(store, plan.transform, jobs).is_finished()] or plans
