"""The rule count_rows."""

from __future__ import annotations

import re
from dataclasses import replace

from windowpane.plan.logical import LogicalAggregation
from windowpane.plan.node import PlanNode
from windowpane.plan.traversal import rewrite
from windowpane.sql.query import AggregateCall

_NOT_NULL_LITERAL = re.compile(r"-?\d+(\.\d+)?|'[^'\\]*'|TRUE|FALSE", re.IGNORECASE)


def count_rows(root: PlanNode) -> PlanNode:
    """Count rows instead of a constant that is never NULL: no column has to cross for it.

    Before: count(1) AS _a0
    After:  count(*) AS _a0
    """
    return rewrite(root, _count_rows)


def _count_rows(node: PlanNode) -> PlanNode:
    if not isinstance(node, LogicalAggregation):
        return node
    return replace(node, calls=tuple(replace(call, args=()) if _counts_rows(call) else call for call in node.calls))


def _counts_rows(call: AggregateCall) -> bool:
    constant = all(_NOT_NULL_LITERAL.fullmatch(arg.text) for arg in call.args)
    return call.function == "count" and bool(call.args) and not call.distinct and constant
