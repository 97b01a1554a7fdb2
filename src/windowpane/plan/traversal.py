"""Walks over trees of plan nodes, for the planner and its rules. Whatever runs a plan reads its stages instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from windowpane.plan.leaves import ResultsNode
from windowpane.plan.logical import LogicalProjection
from windowpane.plan.node import PlanNode
from windowpane.plan.physical import PhysicalFinalProject

Node = TypeVar("Node", bound=PlanNode)


def walk(root: PlanNode) -> Iterator[PlanNode]:
    """All nodes in pre-order: the order of the ids in EXPLAIN."""
    yield root
    for child in root.children():
        yield from walk(child)


def walk_own(root: PlanNode) -> Iterator[PlanNode]:
    """The nodes of one query, without those of queries whose results it reads."""
    yield root
    if not isinstance(root, ResultsNode):
        for child in root.children():
            yield from walk_own(child)


def find(root: PlanNode, kind: type[Node]) -> Node | None:
    """The first node of that kind in pre-order."""
    return next((node for node in walk(root) if isinstance(node, kind)), None)


def rewrite(root: PlanNode, change: Callable[[PlanNode], PlanNode]) -> PlanNode:
    """`change` applied to every node, children first."""
    children = root.children()
    changed = tuple(rewrite(child, change) for child in children)
    # By identity: a child that differs only in a remark (why it was not fused) compares equal.
    same = all(new is old for new, old in zip(changed, children, strict=True))
    return change(root if same else root.with_children(changed))


def over_results(root: PlanNode, below: Sequence[PlanNode]) -> PlanNode:
    """The plan of a query over the results of others, with their plans in it, without their sinks."""
    results = iter([next(node for node in walk(each) if isinstance(node, (LogicalProjection, PhysicalFinalProject)))
                    for each in below])  # fmt: skip

    def change(node: PlanNode) -> PlanNode:
        if isinstance(node, ResultsNode) and node.query is None:
            return replace(node, query=next(results))
        return node

    return rewrite(root, change)
