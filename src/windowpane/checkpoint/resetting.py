"""Removes the checkpoint of a transform: only what windowpane has written there, because the folder may be shared."""

from __future__ import annotations

from windowpane.checkpoint.generations import remove_others
from windowpane.checkpoint.transform import Checkpoint

OURS = ("finished.json", "batch-size.json", "ledger", "outbox", "results-outbox", "reinject", "damaged", "results",
        "tables", "plan.json")  # fmt: skip
"""In the order of removal: `plan.json` identifies a checkpoint, so a reset that is cut short can be repeated.

`batch-size.json` is of earlier versions.
"""


def undelivered(checkpoint: Checkpoint) -> dict[str, int]:
    """Numbers of results and side rows that are not delivered yet, and would be lost, if there are any."""
    outboxes = {"results": checkpoint.result_outboxes(), "side rows": checkpoint.outboxes()}
    found = {what: sum(sum(each.pending().values()) for each in its.values()) for what, its in outboxes.items()}
    return {what: rows for what, rows in found.items() if rows}


def remove_checkpoint(checkpoint: Checkpoint) -> None:
    """Side rows that a graceful end has written out (`undelivered-….jsonl`) stay: nothing else has them."""
    remove_others(checkpoint.store, None)
    for name in OURS:
        checkpoint.store.clear(name)
