"""How the plan of a checkpoint changes: what a start with another query would do, and the record after it."""

from __future__ import annotations

import time
from dataclasses import replace

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord, PlanVersion, difference
from windowpane.errors import StateError
from windowpane.plan.adoption import Adopted, adopted_shape
from windowpane.plan.build import Plan
from windowpane.plan.changes import RETIMES, Change, closed_until_us, compare, settings_only
from windowpane.plan.cuts import cut_between_us
from windowpane.plan.shape import PlanShape, shape_of

_EARLIER = "an earlier version made this checkpoint and did not keep enough of its plan"
_AGAIN = "run the query it was made with, set another `checkpoint` folder, or begin anew: windowpane reset"


def change_to(record: PlanRecord, plan: Plan) -> Change:
    """What a start with this plan does."""
    same = record.plan_id == plan.plan_id
    if record.shape is None:
        return Change("unchanged") if same else Change("refused", reason=_EARLIER)
    found = compare(record.shape, shape_of(plan))
    if same:
        return settings_only(record.shape, shape_of(plan), found)
    return Change("taken_over", ("the text",)) if found.kind == "unchanged" else found


def cut_us(record: PlanRecord, plan: Plan, last: Entry | None) -> int | None:
    """Where a hand-over to this plan cuts time; None if both plans never begin a window at the same instant."""
    if last is None or record.shape is None:
        return None
    read_us = max([*last.maxima.values(), *([] if last.maxima else [last.clock_us])])
    return cut_between_us(record.shape, shape_of(plan), read_us)


def check_change(record: PlanRecord, plan: Plan, checkpoint: str, *, evolve: bool, pending: int | None) -> Change:
    """StateError unless the checkpoint can go on with this plan, and the user has agreed to a change of the query.

    `pending` is a micro-batch that was begun and not completed.
    """
    change = change_to(record, plan)
    changed = record.plan_id != plan.plan_id
    if not changed and change.goes_on:
        return change
    if not change.goes_on:
        raise _refusal(record, plan, checkpoint, change)
    if not evolve:
        raise StateError(
            "CHECKPOINT_OTHER_QUERY",
            f"the checkpoint {checkpoint} belongs to plan {record.plan_id}, this query is plan {plan.plan_id}:\n"
            f"{difference(record.sql, plan.query.canonical)}\nThe change would be {change.words}.",
            "agree to it with windowpane run --evolve, run the query the checkpoint was made with, set another "
            "`checkpoint` folder, or begin anew: windowpane reset",
        )
    retimed = [each for each in change.what if each in RETIMES]
    if pending is not None and retimed:
        raise StateError(
            "CHECKPOINT_PENDING_BATCH",
            f"micro-batch {pending} of {checkpoint} was begun with the earlier query and not completed. A change of "
            f"{', '.join(retimed)} would give other results for it than a sink may have",
            "complete it first: run the earlier query once, for example with --trigger available_now",
        )
    return change


def _refusal(record: PlanRecord, plan: Plan, checkpoint: str, change: Change) -> StateError:
    shown = difference(record.sql, plan.query.canonical)
    message = f"the checkpoint {checkpoint} belongs to plan {record.plan_id}, and cannot go on as {plan.plan_id}: "
    if change.kind == "hand_over":
        message += f"the change needs a hand-over ({', '.join(change.what)}), which is not supported yet"
    else:
        message += change.reason
    return StateError("CHECKPOINT_OTHER_QUERY", message + (f":\n{shown}" if shown else ""), _AGAIN)


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


def first_version(record: PlanRecord, since_us: int | None) -> PlanVersion:
    """The plan that a checkpoint was made with. Earlier versions have not recorded when that was."""
    return PlanVersion(record.plan_id, record.sql, since_us=since_us, since_batch=0, change="new")


def begun(record: PlanRecord, plan: Plan) -> PlanRecord:
    """The record of a new checkpoint."""
    return replace(record, shape=shape_of(plan), plans=(first_version(record, _now_us()),))


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
