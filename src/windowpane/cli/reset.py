"""`windowpane reset`: removes a checkpoint, so that the next run begins anew, or puts it back to a savepoint."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from windowpane.checkpoint.jobs import recorded_jobs
from windowpane.checkpoint.recent import RECENT_FILE
from windowpane.checkpoint.resetting import check_whole_jobs, remove_checkpoints, undelivered
from windowpane.checkpoint.restoring import MARK, forget_restore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.cli.status import checkpoint_store
from windowpane.config import find_pipeline, load_pipeline
from windowpane.errors import ConfigError
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime import inspection
from windowpane.runtime.savepoints import GoingBack, with_checkpoint


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
            jobs, whole = recorded_jobs(store), store.address()
            remove_checkpoints([
                Checkpoint(store) if each.address == whole else transform_checkpoint(store, name, jobs)
                for name, each in self.transforms.items()
            ])  # fmt: skip
            forget_restore(store)
            store.clear(RECENT_FILE)
        finally:
            lock.release()
        if as_json:
            return json.dumps({"checkpoint": self.store.address(), "removed": list(self.transforms)}, indent=2)
        removed = "\n".join(f"removed {each.address}" for each in self.transforms.values())
        return f"{removed}\nThe next windowpane run reads the input from its beginning. Sinks keep what they have."


@dataclass(frozen=True)
class ResetTo:
    """A checkpoint that is to be put back to a savepoint."""

    going: GoingBack

    def lines(self) -> list[str]:
        return self.going.lines()

    def carry_out(self, *, as_json: bool) -> str:
        """Go back; StateError while a process runs there. Gives the text to print."""
        taken, savepoint = self.going.carry_out(), self.going.origin.savepoint
        if as_json:
            return json.dumps(
                {
                    "checkpoint": self.going.origin.store.address(),
                    "savepoint": savepoint.name,
                    "jobs": {job: vars(moment) for job, moment in savepoint.moments.items()},
                    "sinks": [vars(each) for each in taken],
                },
                indent=2,
            )
        done = f"The checkpoint is back at savepoint {savepoint.name}. The next windowpane run goes on from there."
        return "\n".join([*map(str, taken), done])


@dataclass(frozen=True)
class ResetOptions:
    """What the command line asks for. `to`: a savepoint; `place`: instead of the file's checkpoint."""

    transform: str | None = None
    to: str | None = None
    place: str | None = None
    keep_results: bool = False


def plan_reset(path: Path | None, options: ResetOptions) -> Reset | ResetTo:
    """StateError when there is no checkpoint or no such savepoint, or a process runs on the checkpoint."""
    if options.to is not None:
        return _plan_going_back(path, options, options.to)
    if options.keep_results:
        raise ConfigError("BAD_OPTION", "--keep-results belongs to --to", "without --to, sinks keep what they have")
    store = checkpoint_store(path, options.place)
    is_half = store.exists(MARK)  # a restore that was cut short may have made no checkpoint yet
    found = {} if is_half else inspection.only(inspection.find_transforms(store), options.transform)
    check_whole_jobs(found)
    lock = RunLock(store)
    lock.acquire()
    lock.release()
    return Reset(store, found)


def _plan_going_back(path: Path | None, options: ResetOptions, name: str) -> ResetTo:
    if options.transform is not None:
        message = "a savepoint is of a whole pipeline, so --to goes back with all transforms"
        raise ConfigError("BAD_OPTION", message, "leave out --transform")
    config = with_checkpoint(load_pipeline(path or find_pipeline()), options.place)
    return ResetTo(GoingBack.planned(config, plan_pipeline(config, None), name, keeps_results=options.keep_results))


def confirmed(planned: Reset | ResetTo, *, as_json: bool) -> bool:
    """Ask at the terminal. Where nobody can answer, --yes is needed."""
    if as_json or not sys.stdin.isatty():
        raise ConfigError("NOT_CONFIRMED", "reset asks before it removes anything, and cannot ask here", "add --yes")
    for line in planned.lines():
        typer.echo(line, err=True)
    asked = "Remove? Open windows and offsets are lost" if isinstance(planned, Reset) else "Go back?"
    return typer.confirm(asked, err=True)


def _described(name: str, checkpoint: Checkpoint) -> str:
    last = checkpoint.ledger.last()
    batches = "no micro-batch yet" if last is None else f"{last.batch_id + 1:,} micro-batches"
    parts = [batches, f"{last.totals.get('in_', 0):,} rows read" if last else ""]
    parts.append(f"{last.open_windows:,} open windows" if last else "")
    parts.append("finished" if checkpoint.is_finished() else "")
    for what, rows in undelivered(checkpoint).items():
        parts.append(f"{rows:,} {what} that their sinks have not taken yet")
    return f"{name} ({checkpoint.address}): {', '.join(filter(None, parts))}"
