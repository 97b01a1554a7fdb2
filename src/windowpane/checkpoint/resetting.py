"""Removes the checkpoint of a transform: only what windowpane has written there, because the folder may be shared."""

from __future__ import annotations

from collections import Counter

from windowpane.checkpoint.generations import remove_others
from windowpane.checkpoint.transform import Checkpoint

OURS = ("finished.json", "batch-size.json", "ledger", "outbox", "results-outbox", "reinject", "damaged", "results",
        "tables", "plan.json")  # fmt: skip
"""In the order of removal: `plan.json` identifies a checkpoint, so a reset that is cut short can be repeated.

`batch-size.json` is of earlier versions.
"""


def undelivered(checkpoint: Checkpoint) -> dict[str, int]:
    """Numbers of results and side rows that are not delivered yet, and would be lost, if there are any."""
    found = Counter[str]()
    for outbox in checkpoint.all_outboxes():
        found[outbox.holds] += sum(outbox.pending().values())
    return {what: rows for what, rows in found.items() if rows}


def remove_checkpoint(checkpoint: Checkpoint) -> None:
    """Side rows that a graceful end has written out (`undelivered-….jsonl`) stay: nothing else has them."""
    remove_others(checkpoint.store, None)
    for name in OURS:
        checkpoint.store.clear(name)
