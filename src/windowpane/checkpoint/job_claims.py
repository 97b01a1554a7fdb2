"""Which jobs a start runs: those that the checkpoint has, and new ones for transforms that have none yet.

A transform keeps the job that its state was made in, whatever the configuration would choose for a new one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windowpane.checkpoint.job_members import NO_CONSENT, Consent, join, joined, taken_out
from windowpane.checkpoint.jobs import JobFile, JobRecord, job_store, recorded_jobs
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.removed_jobs import check_removed_jobs, drop_removed_jobs
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, open_plans, suffix_of, transform_checkpoint
from windowpane.config import Options
from windowpane.core.windows.cut import Cut
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
    leaves: bool = False
    """The pipeline no longer has it: it ends with the next micro-batch."""
    is_new: bool = False
    """It joins a job that has run without it."""

    @property
    def label(self) -> str:
        """The transform, and its version if it is not the first: sinks tell batches apart by it."""
        return f"{self.plan.transform}{suffix_of(self.checkpoint.version)}"

    @property
    def cut(self) -> Cut:
        """The windows that this version of the transform has."""
        return Cut(self.record.from_us, self.record.until_us)


Replan: TypeAlias = Callable[[str, PlanRecord], Plan]
"""Plans a transform again that the pipeline no longer has."""


def admit_jobs(
    store: Store,
    planned: Sequence[PlannedJob],
    options: Options,
    *,
    evolve: bool = False,
    consent: Consent = NO_CONSENT,
) -> None:
    """StateError if the checkpoint does not let these transforms run. Needs no Spark, and writes nothing."""
    jobs = recorded_jobs(store)
    open_ones = open_plans(store, [plan for job in planned for plan in job.plans])
    _check_recorded(store, jobs, planned, open_ones, consent)
    for plan in open_ones:
        checkpoint = transform_checkpoint(store, plan.transform, jobs)
        if checkpoint.plan.exists() or checkpoint.job is None:
            checkpoint.admit(plan, options.shards, spread=options.extra_shuffles, evolve=evolve or consent.evolve)


def claim_jobs(
    store: Store,
    planned: Sequence[PlannedJob],
    options: Options,
    *,
    evolve: bool = False,
    consent: Consent = NO_CONSENT,
    replan: Replan | None = None,
) -> list[list[Claimed]]:
    """The transforms to start, by job. Only the holder of the lease may call it; StateError as `admit_jobs`.

    `evolve`: queries may change. `replan`: for transforms that leave.
    """
    jobs = recorded_jobs(store)
    plans = {plan.transform: plan for plan in open_plans(store, [plan for job in planned for plan in job.plans])}
    _check_recorded(store, jobs, planned, list(plans.values()), consent)
    jobs = drop_removed_jobs(store, taken_out(store, jobs, consent), consent)
    for job in planned:
        jobs |= _created(store, jobs, [plan for plan in job.plans if plan.transform in plans], job.name, options)
    together = [[plans[name] for name in record.transforms if name in plans] for record in jobs.values()]
    shared = {plan.transform for group in together for plan in group}
    groups = [group for group in together if group]
    groups += [[plan] for name, plan in plans.items() if name not in shared]
    order = list(plans)
    groups.sort(key=lambda group: order.index(group[0].transform))
    evolve = evolve or consent.evolve
    found = [[_claimed(store, jobs, plan, options, evolve=evolve) for plan in group] for group in groups]
    return [[*claims, *_leaving(store, jobs, claims, replan)] for claims in found]


def _claimed(store: Store, jobs: dict[str, JobRecord], plan: Plan, options: Options, *, evolve: bool) -> Claimed:
    checkpoint = transform_checkpoint(store, plan.transform, jobs)
    is_new = not checkpoint.plan.exists() and checkpoint.log.last_planned() >= 0
    numbers = next((each.numbers for each in jobs.values() if plan.transform in each.transforms), {})
    number = numbers.get(plan.transform, 0) + 1
    record = checkpoint.claim(plan, options.shards, spread=options.extra_shuffles, evolve=evolve, number=number)
    return Claimed(plan, checkpoint.of_version(record.version), record, is_new=is_new)


def _leaving(
    store: Store, jobs: dict[str, JobRecord], claims: Sequence[Claimed], replan: Replan | None
) -> Iterator[Claimed]:
    """The transforms of a job that end with the next micro-batch."""
    record = next((each for each in jobs.values() if claims[0].plan.transform in each.transforms), None)
    for name in record.leaving if record is not None and replan is not None else ():
        checkpoint = transform_checkpoint(store, name, jobs)
        known = checkpoint.record()
        assert replan is not None
        yield Claimed(replan(name, known), checkpoint.of_version(known.version), known, leaves=True)


def _created(
    store: Store, jobs: dict[str, JobRecord], plans: Sequence[Plan], name: str, options: Options
) -> dict[str, JobRecord]:
    """A job for transforms that have no checkpoint yet, if there are several of them, or the one that they come to."""
    known = {transform for record in jobs.values() for transform in record.transforms}
    new = [
        plan
        for plan in plans
        if plan.transform not in known and not Checkpoint(store.below(plan.transform)).plan.exists()
    ]
    others = [plan for plan in plans if plan not in new]
    if new and others and (found := joined(store, jobs, others, new)) is not None:
        join(store, *found)
        return dict([found])
    apart = [plan.transform for plan in others if plan.transform not in known]
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
    store: Store,
    jobs: dict[str, JobRecord],
    planned: Sequence[PlannedJob],
    plans: Sequence[Plan],
    consent: Consent,
) -> None:
    """StateError unless the transforms of each recorded job still run, and together, or are removed with consent."""
    check_removed_jobs(store, jobs, consent)
    names = {plan.transform for plan in plans}
    groups = [{plan.transform for plan in job.plans} for job in planned]
    for name, record in jobs.items():
        removed, members = consent.removed(record), set(record.transforms)
        if not members & names:
            continue
        where = f"in the checkpoint {store.address()}, the transforms `{'`, `'.join(record.transforms)}` share the job "
        if removed and not (consent.evolve or consent.drain_removed):
            raise StateError(
                "CHECKPOINT_JOB",
                f"{where}`{name}`, and the pipeline no longer has `{'`, `'.join(removed)}`",
                "agree to it: windowpane run --drain-removed emits the open windows of removed transforms, "
                "windowpane run --evolve drops them; or put the transforms back",
            )
        if any(members - set(removed) <= group for group in groups):
            continue
        missing = sorted(members - names - set(removed))
        reason = (
            f"this run is without `{'`, `'.join(missing)}`" if missing else "the configuration keeps some of them apart"
        )
        raise StateError(
            "CHECKPOINT_JOB",
            f"{where}`{name}`, and {reason}",
            "run all of them together, set another `checkpoint` folder, or begin anew: windowpane reset",
        )
