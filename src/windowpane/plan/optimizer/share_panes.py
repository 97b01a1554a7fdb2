"""The rule share_panes."""

from __future__ import annotations

from dataclasses import replace

from windowpane.core.windows import Hopping
from windowpane.plan.node import PlanNode, rewrite
from windowpane.plan.physical import PhysicalStreamingAggregation
from windowpane.time import format_duration

MAX_PANES_PER_SLIDE = 64
"""Beyond this, closing a window merges more panes than a row would have touched windows."""


def share_panes(root: PlanNode) -> PlanNode:
    """Cut hopping windows into panes of gcd(size, slide) that all of them, and all their aggregates, share.

    A row then touches one pane, whatever the overlap. A quota counts the groups of each window, so with max_groups
    every window has a state of its own.

    Before: PhysicalStreamingAggregation window=hopping(1m, slide 5s)
    After:  PhysicalStreamingAggregation window=hopping(1m, slide 5s) panes=shared(5s)
    """
    return rewrite(root, _with_panes)


def _with_panes(node: PlanNode) -> PlanNode:
    if not isinstance(node, PhysicalStreamingAggregation) or not isinstance(node.window.spec, Hopping):
        return node
    reason = _why_not(node.window.spec, node.aggregation.max_groups)
    if reason is not None:
        return replace(node, panes=f"per window: {reason}")
    return replace(node, pane_us=node.window.spec.pane_us)


def _why_not(spec: Hopping, max_groups: int | None) -> str | None:
    if spec.slide_us >= spec.size_us:
        return "windows do not overlap"
    if max_groups is not None:
        return "max_groups counts the groups of each window"
    if spec.slide_us // spec.pane_us > MAX_PANES_PER_SLIDE:
        return f"panes of {format_duration(spec.pane_us)} would be too many"
    return None
