"""A transform that is asked about: its plan, and what its ledger says. Spark is not needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.config import PipelineConfig, find_pipeline, load_pipeline
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.plan.lateness import judged_window, lateness_judge, time_stage
from windowpane.plan.node_fields import WindowPlan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.plan.stages import TimeStage
from windowpane.runtime.location import store_of_file
from windowpane.time import format_duration, format_instant


@dataclass(frozen=True)
class Answer:
    """What a command prints: sentences for people, and the same as values for scripts."""

    about: str
    """The transform."""
    lines: list[str]
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"transform": self.about, **self.facts, "answer": self.lines}


@dataclass(frozen=True)
class Asked:
    """A transform with its checkpoint. `running`: a process holds the checkpoint."""

    config: PipelineConfig
    plan: Plan
    checkpoint: Checkpoint
    running: bool

    @property
    def name(self) -> str:
        return self.plan.transform

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries of the ledger that are kept, oldest first."""
        ledger = self.checkpoint.ledger
        return [entry for entry in map(ledger.read, ledger.batch_ids()) if entry is not None]

    @property
    def last(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    @property
    def watermark_us(self) -> int | None:
        return self.last.watermark_us if self.last else None

    @cached_property
    def finished(self) -> bool:
        return self.checkpoint.is_finished()

    @cached_property
    def time(self) -> TimeStage | None:
        return time_stage(self.plan.stages)

    @property
    def lag_us(self) -> int:
        return self.time.lag_us if self.time else 0

    @property
    def window(self) -> WindowPlan | None:
        return judged_window(self.plan.stages)

    @property
    def lateness_us(self) -> int:
        return self.window.allowed_lateness_us if self.window else 0

    @property
    def row_rule(self) -> bool:
        """Whether rows are judged one by one."""
        return self.time is not None and (self.time.ordered or self.time.late_rule == "row")

    @property
    def judged(self) -> bool:
        """Whether rows can be late at all."""
        return lateness_judge(self.plan.stages) is not None

    def closing_us(self, end_us: int) -> int:
        """The watermark that closes a window which ends at `end_us`."""
        return end_us + self.lateness_us

    def is_closed(self, end_us: int) -> bool:
        until = self.window.closed_until_us if self.window else None
        if until is not None and end_us <= until:
            return True
        return self.watermark_us is not None and self.watermark_us >= self.closing_us(end_us)

    def state(self) -> str:
        if self.finished:
            return "finished"
        return "running" if self.running else "stopped"


def asked_transforms(path: Path | None, transform: str | None, place: str | None = None) -> Iterator[Asked]:
    """The transforms of a pipeline that have run; StateError if none of them has."""
    found = list(planned_transforms(path, transform, place))
    if not any(each.checkpoint.plan.exists() for each in found):
        hint = "windowpane run makes one when it first runs"
        address = store_of_file(path or find_pipeline(), place).address()
        raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {address}", hint)
    return iter([each for each in found if each.checkpoint.plan.exists()])


def planned_transforms(path: Path | None, transform: str | None, place: str | None = None) -> Iterator[Asked]:
    """The transforms of a pipeline, also those that have never run."""
    file = path or find_pipeline()
    config = load_pipeline(file)
    plans = plan_pipeline(config, transform)
    store = store_of_file(file, place)
    running = RunLock(store).held()
    return iter([Asked(config, plan, transform_checkpoint(store, plan.transform), running) for plan in plans])


def current(config: PipelineConfig, store: Store, transform: str) -> Asked:
    """A transform as the process that runs it sees it, between two micro-batches."""
    (plan,) = plan_pipeline(config, transform)
    return Asked(config, plan, transform_checkpoint(store, transform), running=False)


def now_us() -> int:
    return int(time.time() * 1_000_000)


def shown(us: int | None) -> str:
    """An instant for people: `2024-05-01 12:00:48`, with a fraction only where there is one."""
    if us is None:
        return "no time"
    whole, _, fraction = format_instant(us).replace("T", " ").removesuffix("Z").partition(".")
    return f"{whole}.{fraction.rstrip('0')}".rstrip(".")


def span(us: int) -> str:
    """A duration for people, rounded: `4m 12s`, `3.2s`, `2d 4h`."""
    unit = 1 if us < 1_000 else 1_000 if us < 1_000_000 else 100_000 if us < 60_000_000 else 1_000_000
    unit = 60_000_000 if us >= 86_400_000_000 else unit
    rounded = round(us / unit) * unit
    return format_duration(rounded) if rounded % 1_000_000 == 0 or rounded < 1_000_000 else f"{rounded / 1e6:g}s"


def counted(count: int, noun: str) -> str:
    """`1 row`, `1,204 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
