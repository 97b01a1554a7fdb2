"""A changed query takes over the state of the one before it: under the names that its columns have there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from windowpane.plan.build import Plan
from windowpane.plan.shape import Names, PlanShape
from windowpane.plan.stages import AnyStage, JoinStage, StageGraph, WindowStage
from windowpane.sql import rename_columns
from windowpane.sql.query import AggregateCall, BoundQuery, Expr, GroupKey

Named = TypeVar("Named", AggregateCall, GroupKey)


@dataclass(frozen=True)
class Adopted:
    """What a plan takes over from the plans before it."""

    keys: Names
    aggregates: Names
    carried: Names
    plan_id: str
    """The plan from which the ids of windows are made, so that they stay as they are."""
    closed_until_us: int | None = None
    """Windows that end here or before are closed, whatever the allowed lateness is now."""


def adopted_shape(new: PlanShape, old: PlanShape) -> PlanShape:
    """The shape of a plan that has adopted the names of another."""
    return replace(
        new,
        keys=_ordered(new.keys, old.keys),
        aggregates=_ordered(new.aggregates, old.aggregates),
        carried=_ordered(new.carried, old.carried),
    )


def _ordered(new: Names, old: Names) -> Names:
    texts = {text for _, text in new}
    return tuple((name, text) for name, text in old if text in texts)


def adopt_names(query: BoundQuery, adopted: Adopted) -> BoundQuery:
    """The query with the internal names, and their order, that the state has."""
    keys, key_names = _renamed(query.keys, adopted.keys)
    calls, call_names = _renamed(query.aggregates, adopted.aggregates)
    carried, carried_names = _renamed(query.carried, adopted.carried)
    names = {**key_names, **call_names, **carried_names}

    def change(expr: Expr) -> Expr:
        return rename_columns(expr, names)

    return replace(
        query,
        plan_id=adopted.plan_id,
        keys=keys,
        aggregates=calls,
        carried=carried,
        outputs=tuple(replace(output, expr=change(output.expr)) for output in query.outputs),
        steps=tuple(step.mapped(change) for step in query.steps),
    )


def _renamed(items: tuple[Named, ...], adopted: Names) -> tuple[tuple[Named, ...], dict[str, str]]:
    """The items in the order and under the names that are adopted, and the new name of each old one."""
    name_of = {text: name for name, text in adopted}
    twice = len(name_of) < len(adopted)
    if twice or any(_text(item) not in name_of for item in items):
        return items, {}
    first: dict[str, Named] = {}
    for item in items:
        first.setdefault(_text(item), item)
    found = tuple(replace(first[text], name=name) for name, text in adopted if text in first)
    return found, {item.name: name_of[_text(item)] for item in items}


def _text(item: AggregateCall | GroupKey) -> str:
    return item.describe() if isinstance(item, AggregateCall) else item.expr.text


def keep_closed(plan: Plan, closed_until_us: int | None) -> Plan:
    """The plan, whose last window keeps windows closed that were closed under an earlier one."""
    if closed_until_us is None:
        return plan
    last = plan.stages.window
    below = {each.name for each in plan.stages.of(JoinStage) if each.name in last.inputs}
    return replace(plan, stages=StageGraph(tuple(_closing(plan.stages.stages, {last.name, *below}, closed_until_us))))


def _closing(stages: Iterable[AnyStage], names: set[str], closed_until_us: int) -> Iterable[AnyStage]:
    for stage in stages:
        if isinstance(stage, (WindowStage, JoinStage)) and stage.name in names and stage.window is not None:
            yield replace(stage, window=replace(stage.window, closed_until_us=closed_until_us))
        else:
            yield stage
