"""`jobs/NAME/job.json`: which transforms of a pipeline share a job, and what about the job may not change.

A transform that is a job by itself has no such record: its folder has all that it needs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from windowpane.checkpoint.records import FORMAT, change_record, encoded, read_object, typed
from windowpane.checkpoint.run_lock import in_use
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


class JobFile:
    """The record in a job's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> JobRecord | None:
        content = read_object(self._store, JOB_FILE, {"format": int})
        return None if content is None else typed(_RECORD, content, self._store.address(JOB_FILE))

    def create(self, record: JobRecord) -> None:
        """StateError if another process has just done so."""
        if not self._store.create(JOB_FILE, encoded(self._content(record))):
            raise in_use(self._store.address())

    def write(self, record: JobRecord) -> None:
        """StateError `LEASE_LOST` if another process has just done so."""
        change_record(self._store, JOB_FILE, self._content(record), self._store.read(JOB_FILE))

    def _content(self, record: JobRecord) -> dict[str, object]:
        return {"format": FORMAT, **asdict(record), "fence": self._store.fence}


_RECORD = TypeAdapter(JobRecord)


def job_store(store: Store, name: str) -> Store:
    """What the transforms of a job share. `store`: of the pipeline."""
    return store.below(f"{JOBS}/{name}")


def recorded_jobs(store: Store) -> dict[str, JobRecord]:
    """The jobs of several transforms in a pipeline's checkpoint, by name."""
    found = {name: JobFile(job_store(store, name)).read() for name in store.below(JOBS).names()}
    return {name: record for name, record in found.items() if record is not None}
