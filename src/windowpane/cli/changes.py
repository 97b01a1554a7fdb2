"""`windowpane diff` and `windowpane history`: what a changed query does to a checkpoint, and what others have done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from windowpane.checkpoint.evolution import NO_CUT, change_to, cut_us, first_version
from windowpane.checkpoint.job_members import Consent
from windowpane.checkpoint.jobs import JobRecord, recorded_jobs
from windowpane.checkpoint.removed_jobs import removed_jobs
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.cli.figures import instant, output_width
from windowpane.config import find_pipeline, load_pipeline
from windowpane.plan.build import Plan
from windowpane.plan.changes import Change
from windowpane.plan.cuts import first_start_us
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.inspection import find_transforms, only
from windowpane.runtime.location import pipeline_store, store_of_file


@dataclass(frozen=True)
class _Found:
    """What a start does to one transform."""

    change: Change
    consent: bool = False
    """The user has to agree to it."""
    cut_us: int | None = None
    flags: str = "yes, --evolve"

    def as_dict(self) -> dict[str, Any]:
        return {"change": self.change.kind, "what": list(self.change.what), "reason": self.change.reason,
                "consent": self.consent, "cut_us": self.cut_us}  # fmt: skip

    def words(self) -> str:
        if self.change.kind != "hand_over":
            return self.change.words
        at = "no row has been read" if self.cut_us is None else f"cut at {instant(self.cut_us)}"
        return f"{self.change.words}; {at}"


def diff(path: Path | None, transform: str | None, *, as_json: bool) -> str:
    """The text to print. Needs no Spark, and changes nothing."""
    config = load_pipeline(path or find_pipeline())
    plans = plan_pipeline(config, transform)
    store = pipeline_store(config)
    jobs = recorded_jobs(store)
    found = {plan.transform: _found(plan, transform_checkpoint(store, plan.transform, jobs)) for plan in plans}
    if transform is None:
        left = [name for name in store.names() if name not in found and Checkpoint(store.below(name)).plan.exists()]
        gone = removed_jobs(store, jobs, Consent(defined=frozenset(config.transforms)))
        unused = {name for members in gone for name in members}
        found |= {name: _removed(name, jobs, unused=name in unused) for name in left}
    if as_json:
        return json.dumps({name: each.as_dict() for name, each in found.items()}, indent=2)
    rows = [[name, each.flags if each.consent else "", each.words()] for name, each in found.items()]
    return _table(["transform", "consent", "what happens"], rows)


def _removed(transform: str, jobs: Mapping[str, JobRecord], *, unused: bool) -> _Found:
    """What becomes of a transform that the pipeline no longer has. `unused`: nor any other of its job."""
    job = next((record for record in jobs.values() if transform in record.members), None)
    if unused:
        reason = (
            "nothing goes on with its state, and --evolve drops it: to emit its open windows, put it back and drain it"
        )
        return _Found(Change("removed", reason=reason))
    if job is None:
        return _Found(Change("removed", reason="it has ended"))
    if transform in job.leaving:
        return _Found(Change("removed", reason="it emits its open windows with the next micro-batch, and ends"))
    reason = "--drain-removed lets it emit its open windows with the next micro-batch, --evolve drops its state"
    return _Found(Change("removed", reason=reason), consent=True, flags="yes, --drain-removed or --evolve")


def _found(plan: Plan, checkpoint: Checkpoint) -> _Found:
    record = checkpoint.plan.read()
    if record is None:
        begins_us = first_start_us(plan)
        return _Found(Change("new", () if begins_us is None else (f"windows from {instant(begins_us)} on",)))
    change, last = change_to(record, plan), checkpoint.ledger.last()
    if change.kind != "hand_over":
        return _Found(change, change.needs_consent and record.plan_id != plan.plan_id)
    cut = cut_us(record, plan, last)
    if cut is None and last is not None:
        return _Found(Change("refused", change.what, f"this needs a hand-over, and {NO_CUT}"))
    return _Found(change, consent=True, cut_us=cut)


def history(path: Path | None, transform: str | None, *, as_json: bool) -> str:
    """The text to print: the plans of each checkpoint, the oldest first."""
    found = only(find_transforms(store_of_file(path or find_pipeline())), transform)
    records = {name: checkpoint.record() for name, checkpoint in found.items()}
    plans = {name: record.plans or (first_version(record, None),) for name, record in records.items()}
    if as_json:
        return json.dumps({name: [asdict(each) for each in versions] for name, versions in plans.items()}, indent=2)
    blocks = []
    for name, versions in plans.items():
        rows = [
            [
                each.plan_id,
                "" if each.since_us is None else instant(each.since_us),
                f"{each.since_batch:,}",
                "" if each.cut_us is None else instant(each.cut_us),
                each.change.replace("_", " ") + (f" ({', '.join(each.what)})" if each.what else ""),
                each.sql,
            ]
            for each in versions
        ]
        blocks.append(f"{name}\n{_table(['plan', 'since', 'batch', 'cut', 'change', 'query'], rows)}")
    return "\n\n".join(blocks)


def _table(titles: list[str], rows: list[list[str]]) -> str:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in titles:
        table.add_column(title, overflow="fold")
    for cells in rows:
        table.add_row(*cells)
    console = Console(file=StringIO(), width=output_width(), markup=False, highlight=False)
    console.print(table)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines)
