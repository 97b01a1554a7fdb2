"""`jobs/NAME/job.json`: which transforms of a pipeline share a job, and what about the job may not change.

A transform that is a job by itself has no such record: its folder has all that it needs. When others join it, its
folder gets the record, and stays the folder of the job.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from windowpane.checkpoint.record_file import RecordFile
from windowpane.checkpoint.store import Store

JOBS = "jobs"
"""The folder of all jobs in a pipeline's checkpoint."""
JOB_FILE = "job.json"


@dataclass(frozen=True)
class JobRecord:
    """A job of several transforms."""

    transforms: list[str]
    """In the order in which the job reads their sources."""
    shards: int
    ticks: bool = False
    """Whether the query has a source that ticks: Spark continues only with the sources it knows."""
    generation: int = 0
    """Which of Spark's checkpoints is in use."""
    host: str = ""
    """The transform in whose folder the job is; empty for a folder in `jobs`."""
    steps: int | None = None
    """As of PlanRecord."""
    sources: list[str] = field(default_factory=list)
    """The streams that workers read, in the order in which Spark numbers them. Empty: not recorded yet."""
    leaving: list[str] = field(default_factory=list)
    """Transforms that the pipeline no longer has: they end with the next micro-batch."""
    dropped: list[str] = field(default_factory=list)
    """What names the state of transforms that are gone."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The last version of each transform that is gone: one that comes back has a new state."""

    @property
    def members(self) -> list[str]:
        return [*self.transforms, *self.leaving]


class JobFile(RecordFile[JobRecord]):
    """The record in a job's store."""

    name, kind = JOB_FILE, TypeAdapter(JobRecord)


def job_store(store: Store, name: str, host: str = "") -> Store:
    """What the transforms of a job share. `store`: of the pipeline."""
    return store.below(host or f"{JOBS}/{name}")


def recorded_jobs(store: Store) -> dict[str, JobRecord]:
    """The jobs of several transforms in a pipeline's checkpoint, by name."""
    found = {name: JobFile(job_store(store, name)).read() for name in store.below(JOBS).names()}
    hosts = [name for name in store.names() if name != JOBS and store.below(name).exists(JOB_FILE)]
    found |= {f"{name}-job" if name in found else name: JobFile(store.below(name)).read() for name in hosts}
    return {name: record for name, record in found.items() if record is not None}
