"""Literal arguments of aggregates: those whose values the planner needs."""

from __future__ import annotations

from sqlglot import exp

from windowpane.core.accumulators import AggregateFunction
from windowpane.sql.syntax.source import SourceText


def literal_value(source: SourceText, function: AggregateFunction, node: exp.Expr) -> object:
    """The value of a literal argument: number, string, boolean, or an array of them."""
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "array":
        return tuple(literal_value(source, function, part) for part in node.expressions)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        value = literal_value(source, function, node.this)
        return -value if isinstance(value, (int, float)) else value
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.name.isdigit() else float(node.name)
    message = f"`{source.quote(node)}` must be a literal"
    raise source.error("AGGREGATE_PARAMETER", message, f"{function.name} needs it when the query is planned", at=node)
