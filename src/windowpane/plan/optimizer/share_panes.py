"""The rule share_panes."""

from __future__ import annotations

from dataclasses import replace

from windowpane.plan.node import PlanNode
from windowpane.plan.physical import PhysicalStreamingAggregation
from windowpane.plan.traversal import rewrite


def share_panes(root: PlanNode) -> PlanNode:
    """Cut hopping windows into panes of gcd(size, slide) that all of them, and all their aggregates, share.

    A row then touches one pane, whatever the overlap. A quota counts the groups of each window, so with max_groups
    every window has a separate state.

    Before: PhysicalStreamingAggregation window=hopping(1m, slide 5s)
    After:  PhysicalStreamingAggregation window=hopping(1m, slide 5s) panes=shared(5s)
    """
    return rewrite(root, _with_panes)


def _with_panes(node: PlanNode) -> PlanNode:
    if not isinstance(node, PhysicalStreamingAggregation) or not node.window.spec.overlapping():
        return node
    spec = node.window.spec
    limited = "max_groups counts the groups of each window" if node.aggregation.max_groups is not None else None
    reason = spec.why_unshared() or limited
    if reason is not None:
        return replace(node, panes=f"per window: {reason}")
    return replace(node, pane=spec.pane())
