"""The rule fuse_window_aggregate."""

from __future__ import annotations

from dataclasses import replace

from windowpane.core.accumulators import resolve
from windowpane.core.windows import Count, Sliding
from windowpane.plan.node import PlanNode, rewrite
from windowpane.plan.parts import Aggregation, PhysicalCall, WindowPlan
from windowpane.plan.physical import PhysicalAggregation, PhysicalStreamingAggregation, PhysicalWindow


def fuse_window_aggregate(root: PlanNode) -> PlanNode:
    """Fold rows into accumulators as they come, instead of keeping them until the window closes.

    Possible when every accumulator is incremental; where windows overlap row by row (sliding, count with a step below
    its count) each must also aggregate ranges, and groups must be the partitions. Otherwise the reason is kept.

    Before: PhysicalAggregation calls=[count(*) AS _a0] over PhysicalTumblingWindow window=tumbling(10s)
    After:  PhysicalStreamingAggregation window=tumbling(10s) calls=[count(*) AS _a0]
    """
    return rewrite(root, _fused)


def _fused(node: PlanNode) -> PlanNode:
    if not isinstance(node, PhysicalAggregation) or not isinstance(node.child, PhysicalWindow):
        return node
    window = node.child.window
    reason = _why_not(window, node.aggregation)
    if reason is not None:
        return replace(node, not_fused=reason)
    return PhysicalStreamingAggregation(node.child.child, window, node.aggregation)


def _why_not(window: WindowPlan, aggregation: Aggregation) -> str | None:
    overlapping = _overlaps_by_row(window)
    for call in aggregation.calls:
        if not resolve(call.function).incremental:
            return f"{call.text} needs all rows"
        if overlapping and not _aggregates_ranges(call):
            return f"{call.text} cannot aggregate overlapping ranges"
    inner = [key.label for key in aggregation.keys if key.column not in window.partition_by]
    if overlapping and inner:
        return f"{', '.join(inner)} is grouped inside each window"
    return None


def _overlaps_by_row(window: WindowPlan) -> bool:
    match window.spec:
        case Sliding():
            return True
        case Count(count=count, step=step):
            return step < count
    return False


def _aggregates_ranges(call: PhysicalCall) -> bool:
    """A DISTINCT form keeps a set, which ranges cannot share."""
    return resolve(call.function).ranged and not call.distinct
