"""The rule fuse_window_aggregate."""

from __future__ import annotations

from dataclasses import replace

from windowpane.core.accumulators import resolve
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import Aggregation, WindowPlan
from windowpane.plan.physical import PhysicalAggregation, PhysicalStreamingAggregation, PhysicalWindow
from windowpane.plan.traversal import rewrite


def fuse_window_aggregate(root: PlanNode) -> PlanNode:
    """Fold rows into accumulators as they come, instead of keeping them until the window closes.

    Tumbling, hopping and session windows need incremental accumulators for that; with a quota, or when groups are
    emitted before the window closes, they are fused whatever the accumulators are, since both look at open groups.
    Sliding windows need accumulators that aggregate ranges, and groups that are the partitions. Otherwise the reason
    is kept for EXPLAIN.

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
    match window.spec.folding:
        case "ranges":
            return _why_no_ranges(window, aggregation)
        case "never":
            return "which rows make a window is known only when it is complete"
    if aggregation.emit.mode != "close" or aggregation.max_groups is not None:
        return None
    needing = [call.text for call in aggregation.calls if not resolve(call.function).incremental]
    return f"{needing[0]} needs all rows" if needing else None


def _why_no_ranges(window: WindowPlan, aggregation: Aggregation) -> str | None:
    for call in aggregation.calls:
        if call.distinct or not resolve(call.function).has_ranges(call.params):
            return f"{call.text} cannot aggregate overlapping ranges"
    inner = [key.label for key in aggregation.keys if key.column not in window.partition_by]
    return f"{', '.join(inner)} is grouped inside each window" if inner else None
