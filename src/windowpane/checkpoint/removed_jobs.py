"""Jobs of a checkpoint of which the pipeline has no transform any more: no query runs that could end them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from windowpane.checkpoint.job_members import Consent
from windowpane.checkpoint.jobs import JobRecord
from windowpane.checkpoint.resetting import remove_checkpoints, undelivered
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.errors import StateError

_log = logging.getLogger("windowpane.run")


def removed_jobs(store: Store, jobs: Mapping[str, JobRecord], consent: Consent) -> Iterator[dict[str, Checkpoint]]:
    """The transforms of each such job, with their checkpoints. One that has ended gracefully is not among them."""
    if consent.defined is None:
        return
    shared = [record.members for record in jobs.values()]
    known = {name for members in shared for name in members}
    alone = [[name] for name in store.names() if name not in known and Checkpoint(store.below(name)).plan.exists()]
    for members in [*shared, *alone]:
        found = {name: transform_checkpoint(store, name, jobs) for name in members}
        if not consent.defined & found.keys() and not all(each.is_finished() for each in found.values()):
            yield found


def check_removed_jobs(store: Store, jobs: Mapping[str, JobRecord], consent: Consent) -> None:
    """StateError if such a job is to be drained."""
    if not consent.drain_removed or consent.evolve:
        return
    for found in removed_jobs(store, jobs, consent):
        raise StateError(
            "CHECKPOINT_JOB",
            f"{_named(found)} cannot be drained: the pipeline has no transform of the job left, so that no micro-batch "
            "runs",
            "put it back and end it with windowpane drain, or drop its state: windowpane run --evolve",
        )


def drop_removed_jobs(store: Store, jobs: Mapping[str, JobRecord], consent: Consent) -> dict[str, JobRecord]:
    """The jobs that are left. The state of the others is removed with consent, and reported without it."""
    left = dict(jobs)
    for found in list(removed_jobs(store, jobs, consent)):
        if not consent.evolve:
            _log.warning(
                "the checkpoint has the state of %s, which the pipeline no longer has: windowpane run --evolve removes "
                "it", _named(found),
            )  # fmt: skip
            continue
        lost = [f"{rows} {what}" for each in found.values() for what, rows in undelivered(each).items()]
        remove_checkpoints(list(found.values()))
        left = {name: record for name, record in left.items() if not found.keys() & set(record.members)}
        also = f", with {' and '.join(lost)} that no sink has taken" if lost else ""
        _log.warning("removed the state of %s, which the pipeline no longer has%s", _named(found), also)
    return left


def _named(found: Mapping[str, Checkpoint]) -> str:
    return f"`{'`, `'.join(found)}`"
