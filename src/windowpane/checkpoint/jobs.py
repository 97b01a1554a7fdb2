"""`jobs/NAME/job.json`: which transforms of a pipeline share a job, and what about the job may not change.

A transform that is a job by itself has no such record: its folder has all that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

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


class JobFile(RecordFile[JobRecord]):
    """The record in a job's store."""

    name, kind = JOB_FILE, TypeAdapter(JobRecord)


def job_store(store: Store, name: str) -> Store:
    """What the transforms of a job share. `store`: of the pipeline."""
    return store.below(f"{JOBS}/{name}")


def recorded_jobs(store: Store) -> dict[str, JobRecord]:
    """The jobs of several transforms in a pipeline's checkpoint, by name."""
    found = {name: JobFile(job_store(store, name)).read() for name in store.below(JOBS).names()}
    return {name: record for name, record in found.items() if record is not None}
