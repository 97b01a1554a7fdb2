"""The input projection: which columns cross from Spark into the operators, and under which names.

Every use has a column of its own at first; the rule `share_inputs` lets equal expressions cross once.
"""

from __future__ import annotations

from collections.abc import Iterator

from windowpane.core import columns as c
from windowpane.plan.logical import (
    LogicalAggregation,
    LogicalDedupe,
    LogicalFilter,
    LogicalRows,
    LogicalStreamJoin,
    LogicalWindow,
)
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import ColumnUse, InputColumn, PhysicalCall, Role
from windowpane.plan.stream_joins import key_columns
from windowpane.plan.traversal import walk
from windowpane.sql.query import AggregateCall, GroupKey, Window

WHERE = "_where"


def input_columns(root: PlanNode) -> tuple[InputColumn, ...]:
    """The columns that the operators of a logical plan read: keys, carried, window, dedupe, calls, WHERE."""
    found = [column for node in walk(root) for column in _columns_of(node)]
    order: tuple[Role, ...] = (
        "join", "key", "carried", "partition", "when", "open", "emit", "dedupe", "argument", "filter", "where", "on",
        "joined",
    )  # fmt: skip
    calls = {"argument": "call", "filter": "call"}
    ranks: dict[str, int] = {calls.get(role, role): rank for rank, role in enumerate(order)}
    return tuple(sorted(found, key=lambda column: ranks[calls.get(column.role, column.role)]))


def _columns_of(node: PlanNode) -> Iterator[InputColumn]:
    match node:
        case LogicalAggregation():
            yield from (InputColumn(key.name, key.expr, "key") for key in node.keys)
            for call in node.calls:
                yield from _columns_of_call(call)
        case LogicalWindow():
            yield from (InputColumn(column.name, column.expr, "carried") for column in node.carried)
            yield from _columns_of_window(node.window)
        case LogicalRows():
            yield from (InputColumn(column.name, column.expr, "carried") for column in node.carried)
        case LogicalDedupe():
            yield from (InputColumn(key.name, key.expr, "dedupe") for key in node.keys)
        case LogicalStreamJoin():
            yield from key_columns(node.join)
            yield from (InputColumn(condition.name, condition.expr, "on") for condition in node.on)
        case LogicalFilter():
            yield InputColumn(WHERE, node.condition, "where")


def _columns_of_call(call: AggregateCall) -> Iterator[InputColumn]:
    for name, arg in zip(argument_names(call), call.args, strict=True):
        yield InputColumn(name, arg, "argument", under=call.filter)
    if call.filter is not None:
        yield InputColumn(filter_name(call), call.filter, "filter")


def _columns_of_window(window: Window) -> Iterator[InputColumn]:
    for name, expr in zip(partition_names(window), window.partition_by, strict=True):
        yield InputColumn(name, expr, "partition")
    if window.when is not None:
        yield InputColumn(c.WHEN, window.when, "when")
    if window.open is not None:
        yield InputColumn(c.OPEN, window.open, "open")
    if window.emit is not None:
        yield InputColumn(c.EMIT, window.emit, "emit")


def argument_names(call: AggregateCall) -> tuple[str, ...]:
    return tuple(f"{call.name}_{position}" for position in range(len(call.args)))


def filter_name(call: AggregateCall) -> str:
    return f"{call.name}_f"


def partition_names(window: Window) -> tuple[str, ...]:
    return tuple(f"_p{position}" for position in range(len(window.partition_by)))


def physical_call(call: AggregateCall) -> PhysicalCall:
    return PhysicalCall(
        call.name,
        function=call.function,
        args=argument_names(call),
        arg_types=tuple(arg.type for arg in call.args),
        params=call.params,
        distinct=call.distinct,
        filter=filter_name(call) if call.filter else None,
        type=call.type,
        text=call.describe(),
    )


def column_use(key: GroupKey) -> ColumnUse:
    return ColumnUse(key.name, key.name, key.label, key.expr.type)
