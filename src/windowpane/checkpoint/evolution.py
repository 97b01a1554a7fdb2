"""How the plan of a checkpoint changes: what a start with another query would do, and the record after it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord, PlanVersion, difference
from windowpane.errors import StateError
from windowpane.plan.adoption import Adopted, adopted_shape
from windowpane.plan.build import Plan
from windowpane.plan.changes import RETIMES, Change, closed_until_us, compare, settings_only
from windowpane.plan.cuts import cut_between_us, first_start_us
from windowpane.plan.hand_over import looks_back_us
from windowpane.plan.shape import PlanShape, shape_of
from windowpane.time import format_instant

NO_CUT = "no instant begins a window in both queries"
_EARLIER = "an earlier version made this checkpoint and did not keep enough of its plan"
_DECODED = (
    "this needs a hand-over, for which workers have to decode the rows, and Spark decodes those of one of the queries: "
    "windowpane explain says why"
)
_AGAIN = "run the query it was made with, set another `checkpoint` folder, or begin anew: windowpane reset"


def change_to(record: PlanRecord, plan: Plan) -> Change:
    """What a start with this plan does."""
    same = record.plan_id == plan.plan_id
    if record.shape is None:
        return Change("unchanged") if same else Change("refused", reason=_EARLIER)
    found = compare(record.shape, shape_of(plan), in_any_order=bool(record.sources))
    if same:
        found = settings_only(record.shape, shape_of(plan), found)
    if found.kind == "hand_over" and record.definition is None:
        return Change("refused", found.what, _EARLIER)
    if found.kind == "hand_over" and not (record.scanned and plan.scan is not None):
        return Change("refused", found.what, _DECODED)
    return Change("taken_over", ("the text",)) if found.kind == "unchanged" and not same else found


def cut_us(record: PlanRecord, plan: Plan, last: Entry | None) -> int | None:
    """Where a hand-over to this plan cuts time; None if both plans never begin a window at the same instant."""
    if last is None or record.shape is None:
        return None
    read = [*last.maxima.values(), *([] if last.latest_us is None else [last.latest_us])] or [last.clock_us]
    before = [] if record.from_us is None else [record.from_us]
    return cut_between_us(record.shape, shape_of(plan), max([*read, *before]))


def must_settle(record: PlanRecord, plan: Plan) -> bool:
    """Whether a micro-batch that was begun with the earlier plan has to be completed with it.

    Another plan would give other results for it than a sink may have.
    """
    change = change_to(record, plan)
    return change.kind == "hand_over" or any(each in RETIMES for each in change.what)


def check_change(record: PlanRecord, plan: Plan, checkpoint: str, *, evolve: bool, last: Entry | None) -> Change:
    """StateError unless the checkpoint can go on with this plan, and the user has agreed to a change of the query.

    `last` is the last entry of its ledger.
    """
    change = change_to(record, plan)
    if change.kind == "refused":
        raise _refusal(record, plan, checkpoint, change.reason)
    if change.kind == "hand_over" and last is not None and cut_us(record, plan, last) is None:
        raise _refusal(record, plan, checkpoint, f"this needs a hand-over ({', '.join(change.what)}), and {NO_CUT}")
    changed = record.plan_id != plan.plan_id or change.kind == "hand_over"
    if changed and not evolve:
        shown = difference(record.sql, plan.query.canonical)
        raise StateError(
            "CHECKPOINT_OTHER_QUERY",
            f"the checkpoint {checkpoint} belongs to plan {record.plan_id}, this query is plan {plan.plan_id}:\n"
            f"{shown or '  (other settings of the transform)'}\nThe change would be {change.words}.",
            "agree to it with windowpane run --evolve, run the query the checkpoint was made with, set another "
            "`checkpoint` folder, or begin anew: windowpane reset",
        )
    return change


def _refusal(record: PlanRecord, plan: Plan, checkpoint: str, reason: str) -> StateError:
    shown = difference(record.sql, plan.query.canonical)
    message = f"the checkpoint {checkpoint} belongs to plan {record.plan_id}, and cannot go on as {plan.plan_id}: "
    return StateError("CHECKPOINT_OTHER_QUERY", message + reason + (f":\n{shown}" if shown else ""), _AGAIN)


def handed_over(record: PlanRecord, plan: Plan, change: Change, last: Entry | None) -> PlanRecord:
    """The record of a checkpoint whose plan hands its windows over to another one. `last`: as of `evolved`.

    If no micro-batch has run, there is nothing to hand over.
    """
    cut = cut_us(record, plan, last)
    made = PlanRecord.of(plan, record.shards, spread=record.spread or None)
    used = {each.plan_id for each in record.plans} | {record.plan_id}
    number = record.version if last is None else record.version + 1
    before = record.plans or (first_version(record, None),)
    version = PlanVersion(plan.plan_id, plan.query.canonical, _now_us(), 0 if last is None else last.batch_id + 1,
                          change.kind, change.what, cut)  # fmt: skip
    old = replace(record, until_us=cut, plans=(), earlier=())
    found = replace(
        made,
        ticks=record.ticks, generation=record.generation, unnamed_until=record.unnamed_until, job=record.job,
        steps=record.steps, sources=record.sources, shape=shape_of(plan), plans=(*before, version), version=number,
        from_us=cut,
        windows_of=_renewed(plan.plan_id, number) if plan.plan_id in used else None,
        earlier=record.earlier if last is None else (*record.earlier, old), start_us=record.start_us,
    )  # fmt: skip
    return starting(found, replace(plan, start_us=record.start_us)) if last is None and record.begins else found


def evolved(record: PlanRecord, plan: Plan, change: Change, last: Entry | None) -> PlanRecord:
    """The record of a checkpoint that goes on with a changed plan. `last` is the last entry of its ledger."""
    new = shape_of(plan)
    if record.shape is None or change.kind == "unchanged":
        return replace(record, shape=_adopted(record, new), plans=record.plans or (first_version(record, None),))
    closed = closed_until_us(record.shape, new, last.watermark_us if last else None)
    until = [us for us in (closed, record.closed_until_us) if us is not None]
    version = PlanVersion(
        plan.plan_id,
        plan.query.canonical,
        since_us=_now_us(),
        since_batch=0 if last is None else last.batch_id + 1,
        change=change.kind,
        what=change.what,
    )
    return replace(
        record,
        plan_id=plan.plan_id,
        sql=plan.query.canonical,
        shape=_adopted(record, new),
        windows_of=record.windows_of or record.plan_id,
        closed_until_us=max(until, default=None),
        plans=(*(record.plans or (first_version(record, None),)), version),
    )


def _renewed(plan_id: str, version: int) -> str:
    """What ids of windows are made from if the plan has been there before: its windows are others now."""
    return hashlib.sha256(f"{plan_id} {version}".encode()).hexdigest()[:16]


def first_version(record: PlanRecord, since_us: int | None) -> PlanVersion:
    """The plan that a checkpoint was made with. Earlier versions have not recorded when that was."""
    return PlanVersion(record.plan_id, record.sql, since_us=since_us, since_batch=0, change="new")


def begun(record: PlanRecord, plan: Plan) -> PlanRecord:
    """The record of a new checkpoint."""
    return starting(replace(record, shape=shape_of(plan), plans=(first_version(record, _now_us()),)), plan)


def starting(record: PlanRecord, plan: Plan) -> PlanRecord:
    """The record of a transform that has not run, with the instant at which it begins."""
    return replace(record, start_us=plan.start_us, from_us=first_start_us(plan), begins=plan.start_us is not None)


def check_start(record: PlanRecord | None, plan: Plan, read_us: int | None) -> None:
    """StateError if the transform is to begin at an instant and has begun at another, or can no longer.

    `record` None: it is new. `read_us`: the largest event time that the job has read.
    """
    if plan.start_us is None or (record is not None and record.start_us == plan.start_us):
        return
    what = f"transform `{plan.transform}` has `start_at` {format_instant(plan.start_us)}"
    if record is not None:
        was = (
            "it has begun without one" if record.start_us is None else f"it began at {format_instant(record.start_us)}"
        )
        hint = "remove `start_at`, or put it back as it was: it only counts for a transform that is new"
        raise StateError("CHECKPOINT_START_AT", f"{what}, but {was}", hint)
    if read_us is not None and read_us + looks_back_us(plan.stages) >= plan.start_us:
        raise StateError(
            "CHECKPOINT_START_AT", f"{what}, and its job has read rows up to {format_instant(read_us)}: the transform "
            "has not seen them", "set a later instant; windowpane backfill computes the windows before it",
        )  # fmt: skip


def _adopted(record: PlanRecord, new: PlanShape) -> PlanShape:
    return new if record.shape is None else adopted_shape(new, record.shape)


def adopted_by(record: PlanRecord) -> Adopted | None:
    """What the plan takes over from plans before it; None if the checkpoint has had only this one."""
    shape = record.shape
    if shape is None or (record.windows_of is None and record.closed_until_us is None):
        return None
    plan_id = record.windows_of or record.plan_id
    return Adopted(shape.keys, shape.aggregates, shape.carried, plan_id, record.closed_until_us)


def _now_us() -> int:
    return time.time_ns() // 1000
