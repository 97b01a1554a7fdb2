"""Aggregate calls: found by the names of the registry, their arguments split into columns and literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windowpane.core import accumulators
from windowpane.core.accumulators import AggregateFunction
from windowpane.errors import PlanError, Span, SqlError, nearest
from windowpane.sql.binding.parameters import literal_value
from windowpane.sql.binding.within_group import ordered_parts, refuse_other_order
from windowpane.sql.functions import IGNORING_NULLS, INSTEAD, SPARK_AGGREGATES
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.types import from_arrow, to_arrow

_AROUND_CALL = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True)
class CallSyntax:
    """One aggregate call, taken apart."""

    function: AggregateFunction
    node: exp.Expr
    args: tuple[exp.Expr, ...]
    params: tuple[object, ...]
    distinct: bool
    filter: exp.Expr | None


def aggregate_name(node: exp.Expr | None) -> str | None:
    """The registry's name of the aggregate that a node calls, if it does. With OVER it is a window function instead.

    FILTER, WITHIN GROUP and IGNORE NULLS around a call belong to it.
    """
    while isinstance(node, _AROUND_CALL):
        node = node.this
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in accumulators.names():
        return None if is_over_call(node) else accumulators.resolve(node.this).name
    return None


def over_call(node: exp.Window) -> exp.Anonymous:
    """The function that stands before OVER."""
    call = node.this
    while isinstance(call, _AROUND_CALL):
        call = call.this
    assert isinstance(call, exp.Anonymous)
    return call


def is_over_call(node: exp.Expr) -> bool:
    """Whether a call is the function that stands before OVER."""
    while isinstance(node.parent, _AROUND_CALL) and node.parent.this is node:
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.parent.this is node


def refuse_foreign_aggregate(source: SourceText, node: exp.Expr, name: str) -> None:
    if name in SPARK_AGGREGATES and name not in accumulators.names():
        hint = INSTEAD.get(name) or f"aggregates are: {nearest(name, accumulators.names())}"
        raise source.error("UNSUPPORTED_AGGREGATE", f"the aggregate `{name}` is not supported", hint, at=node)


def read_call(source: SourceText, node: exp.Expr) -> CallSyntax:
    """Take an aggregate call apart and check the number and kind of its arguments."""
    filter_, skip_nulls, order, call = _unwrap(node)
    function = accumulators.resolve(str(call.this))
    args, distinct = list(call.expressions), False
    if len(args) == 1 and isinstance(args[0], exp.Distinct):
        args, distinct = list(args[0].expressions), True
    if len(args) == 1 and isinstance(args[0], (exp.IgnoreNulls, exp.RespectNulls)):
        skip_nulls, args = isinstance(args[0], exp.IgnoreNulls), [args[0].this]
    ordered = ordered_parts(source, function, call, args, order)
    if ordered is not None:
        _check_distinct(source, function, call, distinct=distinct, args=ordered[0])
        if skip_nulls is not None:
            _about_nulls(source, function, call, ordered[1], skip=skip_nulls)
        return CallSyntax(function, node, *ordered, distinct=distinct, filter=filter_)
    if len(args) == 1 and isinstance(args[0], exp.Star):
        args = []
        if distinct or args:
            raise source.error("AGGREGATE_ARITY", "count(DISTINCT *) is not supported", "list the columns", at=call)
    elif not args or not function.min_args <= len(args) <= function.max_args:
        raise _arity(source, function, call, len(args))
    _check_distinct(source, function, call, distinct=distinct)
    columns = function.max_args - function.params
    params = tuple(literal_value(source, function, arg) for arg in args[columns:])
    if skip_nulls is not None:
        params = _about_nulls(source, function, call, params, skip=skip_nulls)
    return CallSyntax(function, node, args=tuple(args[:columns]), params=params, distinct=distinct, filter=filter_)


def _check_distinct(
    source: SourceText, function: AggregateFunction, call: exp.Expr, *, distinct: bool, args: Sequence[exp.Expr] = ()
) -> None:
    """Refuse DISTINCT where the function, or the order of `args`, does not allow it."""
    if distinct and not function.takes_distinct:
        raise source.error("AGGREGATE_DISTINCT", f"{function.name} does not support DISTINCT", "leave it out", at=call)
    if distinct:
        refuse_other_order(source, function.name, args)


def _unwrap(node: exp.Expr) -> tuple[exp.Expr | None, bool | None, exp.Expr | None, exp.Anonymous]:
    """FILTER's condition, whether NULLs are to be skipped if the call says so, WITHIN GROUP's order, the bare call."""
    order: exp.Expr | None = None
    filter_: exp.Expr | None = None
    skip_nulls: bool | None = None
    while not isinstance(node, exp.Anonymous):
        if isinstance(node, exp.Filter):
            filter_ = node.expression.this
        if isinstance(node, exp.WithinGroup):
            order = node.expression
        if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
            skip_nulls = isinstance(node, exp.IgnoreNulls)
        node = node.this
    return filter_, skip_nulls, order, node


def _arity(source: SourceText, function: AggregateFunction, call: exp.Expr, given: int) -> SqlError:
    low, high = max(function.min_args, 0 if function.name != "count" else 1), function.max_args
    wanted = str(low) if low == high else f"{low} or more" if high > 9 else f"{low} to {high}"
    message = f"{function.name} takes {wanted} argument{'' if wanted == '1' else 's'}, not {given}"
    hint = "write count(*) to count rows" if function.name == "count" else "see the reference of aggregates"
    return source.error("AGGREGATE_ARITY", message, hint, at=call)


def _about_nulls(
    source: SourceText, function: AggregateFunction, call: exp.Expr, params: tuple[object, ...], *, skip: bool
) -> tuple[object, ...]:
    if function.name not in IGNORING_NULLS or params:
        words = "IGNORE NULLS" if skip else "RESPECT NULLS"
        raise source.error("AGGREGATE_IGNORE_NULLS", f"{function.name} takes no {words}", "leave it out", at=call)
    return (skip,)


def result_type(source: SourceText, call: CallSyntax, types: Sequence[str | None], span: Span | None) -> str | None:
    """Spark's name of the call's result type, None where an argument's is unknown; AGGREGATE_TYPE when none fits."""
    arrow = [to_arrow(kind) for kind in types]
    if any(kind is None for kind in arrow):
        return "BIGINT" if call.function.name in ("count", "count_if") else None
    try:
        built = accumulators.build_accumulator(call.function.name, arrow, call.params, call.distinct)
    except PlanError as error:
        raise SqlError(error.code, error.message, error.hint, sql=source.sql, span=span) from None
    return from_arrow(built.output_type)
