"""`plan.json`: which query a transform's checkpoint belongs to, and what about it may not change."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from windowpane.checkpoint.record_file import RecordFile
from windowpane.checkpoint.zone_record import zones_of
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.plan.changes import ChangeKind
from windowpane.plan.definitions import Definition
from windowpane.plan.shape import PlanShape

PLAN_FILE = "plan.json"
_CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "WINDOW", "WATERMARK", "EMIT", "ORDER BY", "LIMIT")


@dataclass(frozen=True)
class PlanVersion:
    """A plan that a checkpoint has, or has had."""

    plan_id: str
    sql: str
    since_us: int | None
    """When it was taken on; None if an earlier version has not recorded it."""
    since_batch: int
    """Its first micro-batch."""
    change: ChangeKind
    """What became of the state of the plan before."""
    what: tuple[str, ...] = ()
    """The parts that had changed."""
    cut_us: int | None = None
    """Of a hand-over: the windows of this plan begin here."""


@dataclass(frozen=True)
class PlanRecord:
    """The plan that state was made with."""

    plan_id: str
    sql: str
    shards: int
    ticks: bool = False
    """Whether the query has a source that ticks: Spark continues only with the sources it knows."""
    reinject: bool = False
    """Whether the query reads side rows again, which is a source too."""
    spread: bool = False
    """Whether rows are shuffled more than once: a checkpoint keeps the stateful stages that it was made with."""
    generation: int = 0
    """Which of Spark's checkpoints is in use. `windowpane rescale` makes the next one."""
    unnamed_until: int | None = None
    """The last batch that an earlier version may have written to files whose names lack the run. None: not known."""
    job: str = ""
    """The job that the transform shares with others; its record has shards, ticks and generation of all of them."""
    time_zones: dict[str, str] = field(default_factory=dict)
    """Time zones that windows follow, each with a digest of its rules and where they are from."""
    shape: PlanShape | None = None
    """What of the plan the state depends on, and the rest of it. None in records of earlier versions."""
    windows_of: str | None = None
    """The plan that ids of windows are made from, if it is not the current one: it stays the same for all plans that
    take over each other's state."""
    closed_until_us: int | None = None
    """Windows that end here or before were closed by an earlier plan, and stay closed."""
    plans: tuple[PlanVersion, ...] = ()
    """The plans that the checkpoint has had, the current one last."""
    definition: Definition | None = None
    """What the plan was made from, to plan it again later. None in records of earlier versions."""
    version: int = 1
    """Which of the versions of the transform it is. Each hand-over makes the next one, with a state of its own."""
    from_us: int | None = None
    """The version has the windows that start here or after; None if it has all."""
    start_us: int | None = None
    """The transform was to begin here, by `start_at`."""
    begins: bool = False
    """`from_us` is where the transform begins. No version was before this one: earlier rows are skipped, not late."""
    until_us: int | None = None
    """The version has the windows that start before; None for the current one."""
    earlier: tuple[PlanRecord, ...] = ()
    """Versions that hand their windows over and may not have ended, the oldest first."""
    scanned: bool = False
    """Whether workers decode the rows: then one read is enough for several plans."""
    steps: int | None = None
    """How many stateful stages the query has: Spark continues only with those it knows. None: not recorded yet."""
    sources: list[str] = field(default_factory=list)
    """The streams that workers read, in the order in which Spark numbers them. Empty: not recorded yet."""

    @classmethod
    def of(cls, plan: Plan, shards: int, *, spread: bool | None = None) -> PlanRecord:
        """For a new checkpoint. `spread` None: where there are several shards to spread rows over."""
        return cls(
            plan.plan_id,
            plan.query.canonical,
            shards,
            ticks=bool(plan.ticks_for),
            reinject=plan.reinjects,
            spread=plan.stages.is_spread and (shards > 1 if spread is None else spread),
            unnamed_until=-1,
            time_zones=zones_of(plan),
            definition=plan.definition,
            scanned=plan.scan is not None,
        )

    def is_unnamed(self, batch_id: int) -> bool:
        """Whether an earlier version may have written this batch to files whose names lack the run."""
        return self.unnamed_until is not None and batch_id <= self.unnamed_until


class PlanFile(RecordFile[PlanRecord]):
    """The record in a transform's store."""

    name, kind = PLAN_FILE, TypeAdapter(PlanRecord)


def check_same_query(record: PlanRecord, plan: Plan, checkpoint: str) -> None:
    """StateError, with the difference, if the state was made by another query. `checkpoint` is its address."""
    if record.plan_id == plan.plan_id:
        return
    raise StateError(
        "CHECKPOINT_OTHER_QUERY",
        f"the checkpoint {checkpoint} belongs to plan {record.plan_id}, this query is plan {plan.plan_id}:\n"
        + difference(record.sql, plan.query.canonical),
        "run the query it was made with, set another `checkpoint` folder, or begin anew: windowpane reset",
    )


def difference(before: str, after: str) -> str:
    """The clauses in which two canonical queries differ."""
    changes = difflib.ndiff(_clauses(before), _clauses(after))
    return "\n".join(f"  {line}" for line in changes if line[0] in "+-")


def check_reinjection(record: PlanRecord, plan: Plan, checkpoint: str) -> None:
    """StateError if a route to `reinject` was added or removed: Spark does not let a checkpoint's sources change."""
    if record.reinject != plan.reinjects:
        was, now = ("with", "without") if record.reinject else ("without", "with")
        raise StateError(
            "CHECKPOINT_REINJECT",
            f"the checkpoint {checkpoint} was made {was} a route to `reinject`, and this pipeline is {now} one",
            "keep the route as it was, set another `checkpoint` folder, or begin anew: windowpane reset",
        )


def check_shards(record: PlanRecord, shards: int | None, checkpoint: str) -> None:
    """StateError if the options ask for another number of shards than the state has."""
    if shards is not None and shards != record.shards:
        raise StateError(
            "CHECKPOINT_SHARDS",
            f"the state in {checkpoint} has {record.shards} shards, the options ask for {shards}",
            f"divide it anew: windowpane rescale --shards {shards}, or set options `shards = {record.shards}`",
        )


def check_spread(record: PlanRecord, plan: Plan, checkpoint: str, *, spread: bool | None) -> None:
    """StateError if the options ask for other stateful stages than the state has."""
    if spread is not None and plan.stages.is_spread and spread != record.spread:
        has, asks = ("several shuffles", "one") if record.spread else ("one shuffle", "several")
        raise StateError(
            "CHECKPOINT_SPREAD",
            f"the state in {checkpoint} was made with {has}, the options ask for {asks}",
            f"set options `extra_shuffles = {str(record.spread).lower()}`, or begin anew: windowpane reset",
        )


def _clauses(sql: str) -> list[str]:
    """A canonical query with a line per clause, for a readable difference."""
    for word in _CLAUSES:
        sql = sql.replace(f" {word} ", f"\n{word} ")
    return sql.splitlines()
