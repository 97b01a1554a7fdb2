"""Which jobs a start runs: those that the checkpoint has, and new ones for transforms that have none yet.

A transform keeps the job that its state was made in, whatever the configuration would choose for a new one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from windowpane.checkpoint.jobs import JobFile, JobRecord, job_store, recorded_jobs
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, open_plans, transform_checkpoint
from windowpane.config import Options
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.plan.jobs import PlannedJob

_log = logging.getLogger("windowpane.run")


@dataclass(frozen=True)
class Claimed:
    """A transform that may run here. `record`: the plan that the checkpoint has taken on."""

    plan: Plan
    checkpoint: Checkpoint
    record: PlanRecord


def admit_jobs(store: Store, planned: Sequence[PlannedJob], options: Options, *, evolve: bool = False) -> None:
    """StateError if the checkpoint does not let these transforms run. Needs no Spark, and writes nothing."""
    jobs = recorded_jobs(store)
    open_ones = open_plans(store, [plan for job in planned for plan in job.plans])
    _check_recorded(store, jobs, planned, open_ones)
    for plan in open_ones:
        checkpoint = transform_checkpoint(store, plan.transform, jobs)
        checkpoint.admit(plan, options.shards, spread=options.extra_shuffles, evolve=evolve)


def claim_jobs(
    store: Store, planned: Sequence[PlannedJob], options: Options, *, evolve: bool = False
) -> list[list[Claimed]]:
    """The transforms to start, by job. Only the holder of the lease may call it; StateError as `admit_jobs`.

    `evolve`: queries may change.
    """
    jobs = recorded_jobs(store)
    plans = {plan.transform: plan for plan in open_plans(store, [plan for job in planned for plan in job.plans])}
    _check_recorded(store, jobs, planned, list(plans.values()))
    for job in planned:
        jobs |= _created(store, jobs, [plan for plan in job.plans if plan.transform in plans], job.name, options)
    together = [[plans[name] for name in record.transforms if name in plans] for record in jobs.values()]
    shared = {plan.transform for group in together for plan in group}
    groups = [group for group in together if group]
    groups += [[plan] for name, plan in plans.items() if name not in shared]
    order = list(plans)
    groups.sort(key=lambda group: order.index(group[0].transform))
    return [[_claimed(store, jobs, plan, options, evolve=evolve) for plan in group] for group in groups]


def _claimed(store: Store, jobs: dict[str, JobRecord], plan: Plan, options: Options, *, evolve: bool) -> Claimed:
    checkpoint = transform_checkpoint(store, plan.transform, jobs)
    record = checkpoint.claim(plan, options.shards, spread=options.extra_shuffles, evolve=evolve)
    return Claimed(plan, checkpoint, record)


def _created(
    store: Store, jobs: dict[str, JobRecord], plans: Sequence[Plan], name: str, options: Options
) -> dict[str, JobRecord]:
    """A job for transforms that have no checkpoint yet, if there are several of them."""
    known = {transform for record in jobs.values() for transform in record.transforms}
    new = [
        plan
        for plan in plans
        if plan.transform not in known and not Checkpoint(store.below(plan.transform)).plan.exists()
    ]
    apart = [plan.transform for plan in plans if plan not in new and plan.transform not in known]
    if len(new) == 1:
        apart.append(new[0].transform)
    if len(plans) > 1 and apart:
        _log.warning(
            "`%s`: a job of its own, and not one with the other transforms over the same streams, whose state was made "
            "before; to let them share a job, begin anew: windowpane reset", "`, `".join(apart),
        )  # fmt: skip
    if len(new) < 2:  # one transform needs no record
        return {}
    free = next(each for each in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if each not in jobs)
    record = JobRecord(
        [plan.transform for plan in new],
        options.shards or os.cpu_count() or 1,
        ticks=any(plan.ticks_for for plan in new),
    )
    JobFile(job_store(store, free)).create(record)
    return {free: record}


def _check_recorded(
    store: Store, jobs: dict[str, JobRecord], planned: Sequence[PlannedJob], plans: Sequence[Plan]
) -> None:
    """StateError unless the transforms of each recorded job still run, and together."""
    names = {plan.transform for plan in plans}
    groups = [{plan.transform for plan in job.plans} for job in planned]
    for name, record in jobs.items():
        members = set(record.transforms)
        if not members & names or any(members <= group for group in groups):
            continue
        missing = sorted(members - names)
        reason = (
            f"this run is without `{'`, `'.join(missing)}`" if missing else "the configuration keeps some of them apart"
        )
        raise StateError(
            "CHECKPOINT_JOB",
            f"in the checkpoint {store.address()}, the transforms `{'`, `'.join(record.transforms)}` share the job "
            f"`{name}`, and {reason}",
            "run all of them together, set another `checkpoint` folder, or begin anew: windowpane reset",
        )
