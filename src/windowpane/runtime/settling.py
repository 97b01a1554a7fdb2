"""Completes micro-batches that were begun with earlier plans, before these change.

Another plan would give other results for such a batch than a sink may already have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windowpane.checkpoint.evolution import must_settle
from windowpane.checkpoint.job_claims import Claimed
from windowpane.checkpoint.jobs import JobRecord, recorded_jobs
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import transform_checkpoint
from windowpane.config import PipelineConfig
from windowpane.plan.build import Plan
from windowpane.runtime.draining import settle
from windowpane.runtime.job import RunningJob
from windowpane.runtime.versions import recorded_plan, versions_of


def unsettled(config: PipelineConfig, store: Store, plans: Sequence[Plan]) -> Iterator[list[Claimed]]:
    """The jobs to run as they were: those with a batch that was not completed and a plan that changes."""
    jobs, seen = recorded_jobs(store), set[str]()
    for plan in plans:
        checkpoint = transform_checkpoint(store, plan.transform, jobs)
        record = checkpoint.plan.read()
        if record is None or checkpoint.job_address in seen or checkpoint.is_finished():
            continue
        if checkpoint.log.last_planned() > checkpoint.log.last_committed() and must_settle(record, plan):
            seen.add(checkpoint.job_address)
            names = _sharing(jobs, plan.transform)
            yield [version for name in names for version in _as_it_was(config, store, jobs, name, plan)]


def _sharing(jobs: dict[str, JobRecord], transform: str) -> list[str]:
    return next((record.members for record in jobs.values() if transform in record.members), [transform])


def _as_it_was(
    config: PipelineConfig, store: Store, jobs: dict[str, JobRecord], name: str, like: Plan
) -> list[Claimed]:
    checkpoint = transform_checkpoint(store, name, jobs)
    record = checkpoint.record()
    plan = recorded_plan(config, name, record, like.types)
    leaves = any(name in each.leaving for each in jobs.values())
    return versions_of(config, Claimed(plan, checkpoint.of_version(record.version), record, leaves=leaves))


def complete(start: Callable[[], RunningJob]) -> None:
    """Run a job until its batch is completed; raises the reason if it fails."""
    job = start()
    try:
        while not job.ended():
            pass
        for transform in job.transforms:
            settle(transform, for_good=False)
    finally:
        job.stop()
        for transform in job.transforms:
            transform.runner.side.close()
            transform.runner.output.close()
