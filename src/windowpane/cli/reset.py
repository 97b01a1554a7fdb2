"""`windowpane reset`: removes a checkpoint, so that the next run begins anew."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from windowpane.checkpoint.resetting import remove_checkpoint, undelivered
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint
from windowpane.cli.status import checkpoint_store
from windowpane.errors import ConfigError
from windowpane.runtime import inspection


@dataclass(frozen=True)
class Reset:
    """What is to be removed."""

    store: Store
    transforms: dict[str, Checkpoint]

    def lines(self) -> list[str]:
        return [_described(name, each) for name, each in self.transforms.items()]

    def carry_out(self, *, as_json: bool) -> str:
        """Remove it all; StateError while a process runs there. Gives the text to print."""
        lock = RunLock(self.store)
        store = lock.acquire()
        try:
            for name, checkpoint in self.transforms.items():
                is_whole = checkpoint.address == store.address()
                remove_checkpoint(Checkpoint(store if is_whole else store.below(name)))
        finally:
            lock.release()
        if as_json:
            return json.dumps({"checkpoint": self.store.address(), "removed": list(self.transforms)}, indent=2)
        removed = "\n".join(f"removed {each.address}" for each in self.transforms.values())
        return f"{removed}\nThe next windowpane run reads the input from its beginning. Sinks keep what they have."


def plan_reset(path: Path | None, transform: str | None) -> Reset:
    """StateError when there is no checkpoint, or a process runs on it."""
    store = checkpoint_store(path)
    found = inspection.only(inspection.find_transforms(store), transform)
    lock = RunLock(store)
    lock.acquire()
    lock.release()
    return Reset(store, found)


def confirmed(planned: Reset, *, as_json: bool) -> bool:
    """Ask at the terminal. Where nobody can answer, --yes is needed."""
    if as_json or not sys.stdin.isatty():
        raise ConfigError("NOT_CONFIRMED", "reset asks before it removes anything, and cannot ask here", "add --yes")
    for line in planned.lines():
        typer.echo(line, err=True)
    return typer.confirm("Remove? Open windows and offsets are lost", err=True)


def _described(name: str, checkpoint: Checkpoint) -> str:
    last = checkpoint.ledger.last()
    batches = "no micro-batch yet" if last is None else f"{last.batch_id + 1:,} micro-batches"
    parts = [batches, f"{last.totals.get('in_', 0):,} rows read" if last else ""]
    parts.append(f"{last.open_windows:,} open windows" if last else "")
    parts.append("finished" if checkpoint.is_finished() else "")
    waiting = undelivered(checkpoint)
    parts.append(f"{waiting:,} side rows that their sinks have not taken yet" if waiting else "")
    return f"{name} ({checkpoint.address}): {', '.join(filter(None, parts))}"
