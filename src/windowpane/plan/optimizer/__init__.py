"""The optimizer: rules as plain functions in one ordered tuple, each from a plan to an equal or better one.

A rule has been applied when the plan it gives is not the one it got.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from windowpane.errors import InternalError
from windowpane.plan.logical import LogicalSink
from windowpane.plan.node import PlanNode
from windowpane.plan.optimizer.count_rows import count_rows
from windowpane.plan.optimizer.deduplicate_aggregates import deduplicate_aggregates
from windowpane.plan.optimizer.fuse_window_aggregate import fuse_window_aggregate
from windowpane.plan.optimizer.prune_columns import prune_columns
from windowpane.plan.optimizer.share_inputs import share_inputs
from windowpane.plan.optimizer.share_panes import share_panes

Rule: TypeAlias = Callable[[PlanNode], PlanNode]

LOGICAL_RULES: tuple[Rule, ...] = (count_rows, deduplicate_aggregates, prune_columns)
PHYSICAL_RULES: tuple[Rule, ...] = (share_inputs, fuse_window_aggregate, share_panes)
RULES: tuple[Rule, ...] = LOGICAL_RULES + PHYSICAL_RULES
"""All rules in the order in which they are applied; physical ones after the plan has been lowered."""


@dataclass(frozen=True)
class AppliedRule:
    """A rule that changed the plan, for EXPLAIN."""

    name: str
    phase: str


def optimize_logical(root: LogicalSink) -> tuple[LogicalSink, tuple[AppliedRule, ...]]:
    optimized, applied = _apply(root, LOGICAL_RULES, "logical")
    if not isinstance(optimized, LogicalSink):
        raise InternalError("PLAN_SHAPE", f"a rule replaced the sink by {optimized.name}")
    return optimized, applied


def optimize_physical(root: PlanNode) -> tuple[PlanNode, tuple[AppliedRule, ...]]:
    return _apply(root, PHYSICAL_RULES, "physical")


def _apply(root: PlanNode, rules: tuple[Rule, ...], phase: str) -> tuple[PlanNode, tuple[AppliedRule, ...]]:
    applied = []
    for rule in rules:
        changed = rule(root)
        if changed != root:
            applied.append(AppliedRule(rule.__name__, phase))
        root = changed
    return root, tuple(applied)
