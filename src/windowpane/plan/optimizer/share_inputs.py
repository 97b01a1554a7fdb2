"""The rule share_inputs."""

from __future__ import annotations

from dataclasses import replace

from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import ColumnUse, PhysicalCall
from windowpane.plan.physical import PhysicalAggregation, PhysicalDedupe, PhysicalProject, PhysicalRows, PhysicalWindow
from windowpane.plan.traversal import find, rewrite


def share_inputs(root: PlanNode) -> PlanNode:
    """Let equal expressions cross once: crossing to Python is what a row costs most.

    Before: PhysicalProject crosses=[_k0=auction, _a0_0=price, _a1_0=price]
    After:  PhysicalProject crosses=[_k0=auction, _a0_0=price], and _a1 reads _a0_0
    """
    project = find(root, PhysicalProject)
    if project is None:
        return root
    first: dict[str, str] = {}
    names = {column.name: first.setdefault(column.expr.text, column.name) for column in project.columns}
    shared = {name: kept for name, kept in names.items() if name != kept}
    return rewrite(root, lambda node: _renamed(node, shared)) if shared else root


def _renamed(node: PlanNode, names: dict[str, str]) -> PlanNode:
    match node:
        case PhysicalProject():
            columns = tuple(column for column in node.columns if column.name not in names)
            return replace(node, columns=columns, where=names.get(node.where, node.where) if node.where else None)
        case PhysicalWindow():
            return replace(node, window=node.window.renamed(names), carried=_uses(node.carried, names))
        case PhysicalRows():
            return replace(node, carried=_uses(node.carried, names))
        case PhysicalDedupe():
            return replace(node, keys=_uses(node.keys, names))
        case PhysicalAggregation():
            calls = tuple(_call(call, names) for call in node.aggregation.calls)
            keys = _uses(node.aggregation.keys, names)
            return replace(node, aggregation=replace(node.aggregation, keys=keys, calls=calls))
    return node


def _uses(columns: tuple[ColumnUse, ...], names: dict[str, str]) -> tuple[ColumnUse, ...]:
    return tuple(replace(column, column=names.get(column.column, column.column)) for column in columns)


def _call(call: PhysicalCall, names: dict[str, str]) -> PhysicalCall:
    args = tuple(names.get(arg, arg) for arg in call.args)
    return replace(call, args=args, filter=names.get(call.filter, call.filter) if call.filter else None)
