"""Removes the checkpoints of transforms: only what windowpane has written there, because the folder may be shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from windowpane.checkpoint.generations import remove_others
from windowpane.checkpoint.jobs import JOB_FILE, JobFile
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError

OURS = ("finished.json", "batch-size.json", "ledger", "outbox", "results-outbox", "reinject", "damaged", "results",
        "tables", "topics.json", "closed", "repairs", "replays", "plan.json")  # fmt: skip
"""In the order of removal: `plan.json` identifies a checkpoint, so a reset that is cut short can be repeated.

`batch-size.json` is of earlier versions.
"""


def undelivered(checkpoint: Checkpoint) -> dict[str, int]:
    """Numbers of results and side rows that are not delivered yet, and would be lost, if there are any."""
    found = Counter[str]()
    for outbox in checkpoint.all_outboxes():
        found[outbox.holds] += sum(outbox.pending().values())
    return {what: rows for what, rows in found.items() if rows}


def remove_checkpoints(checkpoints: Collection[Checkpoint]) -> None:
    """All transforms of a job are removed together.

    Side rows that a graceful end has written out (`undelivered-….jsonl`) stay: nothing else has them.
    """
    jobs = {each.job_address: each.job for each in checkpoints if each.job is not None}
    for store in [*jobs.values(), *(each.store for each in checkpoints)]:
        remove_others(store, None)
        for name in OURS:
            store.clear(name)
    for store in jobs.values():
        store.clear(JOB_FILE)


def check_whole_jobs(checkpoints: Mapping[str, Checkpoint]) -> None:
    """StateError if a transform shares a job with one that is not to be removed."""
    for name, checkpoint in checkpoints.items():
        shared = None if checkpoint.job is None else JobFile(checkpoint.job).read()
        others = [each for each in shared.transforms if each not in checkpoints] if shared else []
        if others:
            raise StateError(
                "CHECKPOINT_JOB",
                f"transform `{name}` shares the job `{checkpoint.job_name}` with `{'`, `'.join(others)}`",
                "transforms of a job are reset together: leave out --transform",
            )
