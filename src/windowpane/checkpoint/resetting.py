"""Removes the checkpoint of a transform. Only what windowpane has written there: the folder may be shared."""

from __future__ import annotations

import contextlib
import shutil

from windowpane.checkpoint.outbox import Outbox
from windowpane.checkpoint.transform import Checkpoint

OURS = ("finished.json", "batch-size.json", "spark", "ledger", "outbox", "reinject", "damaged", "plan.json")
"""In the order of removal: a folder is known by its plan.json, so a reset that is cut short can be repeated."""


def undelivered(checkpoint: Checkpoint) -> int:
    """Side rows that still wait for their sinks, and would be lost."""
    folders = sorted(checkpoint.outbox.iterdir()) if checkpoint.outbox.is_dir() else []
    return sum(sum(Outbox(folder).waiting().values()) for folder in folders)


def remove_checkpoint(checkpoint: Checkpoint) -> None:
    """Side rows that a graceful end has written out (`undelivered-….jsonl`) stay: nothing else has them."""
    for name in OURS:
        path = checkpoint.folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something of someone else is in it
        checkpoint.folder.rmdir()
