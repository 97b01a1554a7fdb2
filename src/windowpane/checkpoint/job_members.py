"""Transforms that come to a job or leave it, on a checkpoint that has run without or with them.

The Spark query stays the same: it reads the same streams, and the plans and states of its transforms are data in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from windowpane.checkpoint.jobs import JobFile, JobRecord, job_store
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, suffix_of, transform_checkpoint
from windowpane.plan.build import Plan


@dataclass(frozen=True)
class Consent:
    """What the user has agreed to."""

    evolve: bool = False
    """Queries may change, and the state of removed transforms is dropped."""
    drain_removed: bool = False
    """Removed transforms emit their open windows first."""
    defined: frozenset[str] | None = None
    """The transforms that the pipeline has; None: all that the checkpoint has."""

    def removed(self, record: JobRecord) -> list[str]:
        """The transforms of a job that the pipeline no longer has."""
        return [] if self.defined is None else [name for name in record.transforms if name not in self.defined]


NO_CONSENT = Consent()


def taken_out(store: Store, jobs: dict[str, JobRecord], consent: Consent) -> dict[str, JobRecord]:
    """The jobs without removed transforms. Those that are to be drained leave with the next micro-batch."""
    found = {}
    for name, record in jobs.items():
        removed, now = consent.removed(record), record
        if removed and len(removed) < len(record.transforms):
            kept = [each for each in record.transforms if each not in removed]
            now = replace(record, transforms=kept, leaving=[*record.leaving, *removed])
        gone = [each for each in now.leaving if _has_left(store, jobs, each, consent, is_new=each in removed)]
        for each in gone:
            now = _dropped(transform_checkpoint(store, each, jobs), now, each)
        if now != record:
            JobFile(job_store(store, name, record.host)).write(now)
        for each in gone:
            _clear(store, each, record)
        found[name] = now
    return found


def _has_left(store: Store, jobs: dict[str, JobRecord], name: str, consent: Consent, *, is_new: bool) -> bool:
    """Whether a removed transform has ended, or is not to be drained."""
    if is_new:
        return not consent.drain_removed
    checkpoint = transform_checkpoint(store, name, jobs)
    versions = checkpoint.ledger.read_with_versions(checkpoint.log.last_committed())[1]
    entry = versions.get(checkpoint.state_tag)
    return entry is not None and entry.ended and not any(box.pending() for box in checkpoint.all_outboxes())


def _dropped(checkpoint: Checkpoint, record: JobRecord, name: str) -> JobRecord:
    known = checkpoint.plan.read()
    versions = [1] if known is None else [known.version, *(each.version for each in known.earlier)]
    tags = [f"{checkpoint.tag}{suffix_of(version)}" for version in versions]
    return replace(
        record,
        leaving=[each for each in record.leaving if each != name],
        dropped=[*record.dropped, *tags],
        numbers=record.numbers | {name: max(versions)},
    )


def _clear(store: Store, name: str, record: JobRecord) -> None:
    """Remove what a transform has left. The folder of a job stays, also if the transform it is named after leaves."""
    own = store.below(name)
    if record.host != name:
        own.clear("")
        return
    own.delete("plan.json")
    for folder in ("outbox", "results-outbox"):
        own.clear(folder)


def joined(
    store: Store, jobs: dict[str, JobRecord], plans: Sequence[Plan], new: Sequence[Plan]
) -> tuple[str, JobRecord] | None:
    """The job that new transforms of a group come to, with them; None if there is none. Nothing is written."""
    names = [plan.transform for plan in plans]
    for name, record in jobs.items():
        if set(record.transforms) & set(names) and _fits(new, ticks=record.ticks):
            return name, replace(record, transforms=[*record.transforms, *(plan.transform for plan in new)])
    for name in names:
        host = Checkpoint(store.below(name)).plan.read()
        if host is not None and not host.job and host.scanned and not host.reinject and _fits(new, ticks=host.ticks):
            members = [name, *(plan.transform for plan in new)]
            record = JobRecord(members, host.shards, host.ticks, host.generation, host=name, steps=host.steps,
                               sources=host.sources)  # fmt: skip
            return (f"{name}-job" if name in jobs else name), record
    return None


def _fits(new: Collection[Plan], *, ticks: bool) -> bool:
    """Whether the query has the sources that new transforms need."""
    return ticks or not any(plan.ticks_for for plan in new)


def join(store: Store, name: str, record: JobRecord) -> None:
    """Write the record of a job that transforms have come to."""
    file = JobFile(job_store(store, name, record.host))
    if file.exists():
        file.write(record)
    else:
        file.create(record)
