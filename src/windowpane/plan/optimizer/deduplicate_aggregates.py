"""The rule deduplicate_aggregates."""

from __future__ import annotations

from dataclasses import replace

from windowpane.core.accumulators import resolve
from windowpane.plan.logical import LogicalAggregation, LogicalProjection, LogicalResultStep
from windowpane.plan.node import PlanNode
from windowpane.plan.traversal import find, rewrite
from windowpane.sql import rename_columns
from windowpane.sql.query import AggregateCall


def deduplicate_aggregates(root: PlanNode) -> PlanNode:
    """Compute equal calls once; what is above reads the first of them.

    Before: LogicalProjection _a0 AS n, _a1 / _a2 AS mean   over   count(*) AS _a0, sum(x) AS _a1, count(*) AS _a2
    After:  LogicalProjection _a0 AS n, _a1 / _a0 AS mean   over   count(*) AS _a0, sum(x) AS _a1
    """
    aggregation = find(root, LogicalAggregation)
    if aggregation is None:
        return root
    first: dict[AggregateCall, str] = {}
    names = {call.name: first.setdefault(_identity(call), call.name) for call in aggregation.calls}
    dropped = {name: kept for name, kept in names.items() if name != kept}
    return rewrite(root, lambda node: _without(node, dropped)) if dropped else root


def _identity(call: AggregateCall) -> AggregateCall:
    """Equal for calls that compute the same, whatever alias of the function was written."""
    return replace(call, name="", function=resolve(call.function).name)


def _without(node: PlanNode, names: dict[str, str]) -> PlanNode:
    match node:
        case LogicalAggregation():
            return replace(node, calls=tuple(call for call in node.calls if call.name not in names))
        case LogicalResultStep():
            return replace(node, step=node.step.mapped(lambda expr: rename_columns(expr, names)))
        case LogicalProjection():
            outputs = tuple(replace(output, expr=rename_columns(output.expr, names)) for output in node.outputs)
            return replace(node, outputs=outputs)
    return node
