"""The rule share_inputs."""

from __future__ import annotations

from dataclasses import replace

from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import ColumnUse, InputColumn, PhysicalCall
from windowpane.plan.physical import (
    PhysicalAggregation,
    PhysicalDedupe,
    PhysicalProject,
    PhysicalRows,
    PhysicalStreamJoin,
    PhysicalWindow,
)
from windowpane.plan.traversal import find, rewrite


def share_inputs(root: PlanNode) -> PlanNode:
    """Let equal expressions cross once: crossing to Python is what a row costs most.

    An argument that is computed is evaluated only where the FILTER of its aggregate holds. It is shared with arguments
    under the same FILTER, or reads a column that is evaluated for every row.

    Before: PhysicalProject crosses=[_k0=auction, _a0_0=price, _a1_0=price]
    After:  PhysicalProject crosses=[_k0=auction, _a0_0=price], and _a1 reads _a0_0
    """
    project = find(root, PhysicalProject)
    if project is None:
        return root
    shared = {name: kept for name, kept in _sharing(project.columns).items() if name != kept}
    return rewrite(root, lambda node: _renamed(node, shared)) if shared else root


def _sharing(columns: tuple[InputColumn, ...]) -> dict[str, str]:
    """For each column the one that crosses for it."""
    under = {
        each.name: each.under.text
        for each in columns
        if each.under is not None and each.expr.text.strip("`") not in each.expr.columns
    }
    first: dict[tuple[str, str | None], str] = {}
    # WHERE comes first: nothing else is evaluated for a row that it drops.
    for column in sorted(columns, key=lambda each: each.role != "where"):
        first.setdefault((column.expr.text, under.get(column.name)), column.name)
    return {
        column.name: first.get((column.expr.text, None)) or first[column.expr.text, under.get(column.name)]
        for column in columns
    }


def _renamed(node: PlanNode, names: dict[str, str]) -> PlanNode:
    match node:
        case PhysicalProject():
            columns = tuple(column for column in node.columns if column.name not in names)
            return replace(node, columns=columns, where=names.get(node.where, node.where) if node.where else None)
        case PhysicalWindow():
            return replace(node, window=node.window.renamed(names), carried=_uses(node.carried, names))
        case PhysicalStreamJoin():
            window, join = node.window and node.window.renamed(names), node.join.renamed(names)
            return replace(node, window=window, join=join, carried=_uses(node.carried, names))
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
