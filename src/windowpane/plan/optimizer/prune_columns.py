"""The rule prune_columns."""

from __future__ import annotations

from dataclasses import replace

from windowpane.plan.inputs import input_columns
from windowpane.plan.logical import (
    LogicalBranch,
    LogicalEventTime,
    LogicalGenerate,
    LogicalJoin,
    LogicalResults,
    LogicalSink,
    LogicalSource,
)
from windowpane.plan.node import PlanNode
from windowpane.plan.traversal import find


def prune_columns(root: PlanNode) -> PlanNode:
    """Read only the columns that something above reads.

    Left as it is where a side output wants the original row, and where a join reads what only Spark can tell.

    Before: LogicalSource stream=bids columns=[auction, price, bidder, ts]   (SELECT auction, max(price) … ON ts)
    After:  LogicalSource stream=bids columns=[auction, price, ts]
    """
    wants_original = isinstance(root, LogicalSink) and any(route.include_original for route in root.routes)
    if wants_original or find(root, LogicalJoin):
        return root
    return _pruned(root, frozenset(name for column in input_columns(root) for name in column.expr.columns))


def _pruned(node: PlanNode, read: frozenset[str], *, in_branch: bool = False) -> PlanNode:
    """`read`: the columns of this node that are read above it. `in_branch`: it is a side of a join."""
    match node:
        case LogicalSource(columns=tuple() as columns):
            return replace(node, columns=tuple(column for column in columns if column.name in read))
        case LogicalResults(query=None) if in_branch:
            return replace(node, columns=tuple(column for column in node.columns if column.name in read))
        case LogicalEventTime():
            read = read.union(*(step.columns for step in node.steps))
        case LogicalGenerate(generator=generator):
            read = read.difference(column.name for column in generator.columns).union(generator.argument.columns)
        case LogicalBranch():
            return _pruned_branch(node, read)
    return node.with_children(tuple(_pruned(child, read, in_branch=in_branch) for child in node.children()))


def _pruned_branch(node: LogicalBranch, read: frozenset[str]) -> PlanNode:
    projection = tuple((name, expr) for name, expr in node.projection if name in read)
    exprs = [expr for _, expr in projection] + ([node.where] if node.where else [])
    below = frozenset(name for expr in exprs for name in expr.columns)
    return replace(node, projection=projection, child=_pruned(node.child, below, in_branch=True))
