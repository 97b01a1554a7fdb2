"""The folders of a pipeline's checkpoint: which of them have a checkpoint of Spark, and which belong to its batches.

A transform that is a job by itself has one folder for everything. Transforms that share a job have a folder each, and
the job has one in `jobs/`, with Spark's checkpoint and the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from windowpane.checkpoint.generations import is_spark_folder, spark_folder
from windowpane.checkpoint.jobs import JOB_FILE, JOBS
from windowpane.checkpoint.plan_record import PLAN_FILE
from windowpane.checkpoint.records import read_object
from windowpane.checkpoint.savepoints import FOLDER
from windowpane.checkpoint.store import Store


@dataclass(frozen=True)
class JobFolder:
    """A folder with Spark's checkpoint, which is called `spark` in it."""

    name: str
    spark: str
    homes: tuple[str, ...]
    """This folder, and those of its transforms if they have folders of their own."""


def job_folders(store: Store) -> list[JobFolder]:
    """All jobs of a checkpoint by name; empty if there is no checkpoint."""
    records = {name: found for name in _candidates(store) if (found := _record(store.below(name))) is not None}
    owners = {name: _owner(name, record, records) for name, record in records.items()}
    jobs = {
        name: JobFolder(name, spark_folder(int(record.get("generation", 0))), (name,))
        for name, record in records.items()
        if owners[name] is None
    }
    for name, owner in owners.items():
        if owner in jobs:
            jobs[owner] = replace(jobs[owner], homes=(*jobs[owner].homes, name))
    return list(jobs.values())


def _candidates(store: Store) -> Iterator[str]:
    for name in store.names():
        if name == JOBS:
            yield from (f"{JOBS}/{each}" for each in store.below(JOBS).names())
        elif name != FOLDER:
            yield name


def _record(store: Store) -> dict[str, Any] | None:
    """What a folder says about itself; None if it belongs to no job."""
    names = store.names()
    found = [read_object(store, file, {}) or {} for file in (PLAN_FILE, JOB_FILE) if file in names]
    if found:
        return {key: value for record in found for key, value in record.items()}  # of a host, the job's go first
    return {} if any(map(is_spark_folder, names)) else None


def _owner(name: str, record: dict[str, Any], records: dict[str, dict[str, Any]]) -> str | None:
    """The folder of the job that a transform shares with others; None if the folder is that of a job."""
    if record.get("host") == name:
        return None
    sharing = (
        job
        for job, each in records.items()
        if job != name and name in (*each.get("transforms", ()), *each.get("leaving", ()))
    )
    found = next(sharing, None)
    return f"{JOBS}/{record['job']}" if found is None and f"{JOBS}/{record.get('job')}" in records else found
