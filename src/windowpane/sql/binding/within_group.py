"""WITHIN GROUP (ORDER BY …): its sort keys become columns of the aggregate call, their directions a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlglot import exp

from windowpane.core.accumulators import AggregateFunction, WithinGroup
from windowpane.errors import SqlError
from windowpane.sql.binding.parameters import literal_value
from windowpane.sql.syntax.dialect import render
from windowpane.sql.syntax.source import SourceText

Parts: TypeAlias = tuple[tuple[exp.Expr, ...], tuple[object, ...]]
"""The columns and the parameters of a call."""

_FORMS = {
    "percentile_cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
    "mode": "mode() WITHIN GROUP (ORDER BY x), or mode(x)",
    "listagg": "listagg(x, ', ') WITHIN GROUP (ORDER BY x)",
}


def ordered_parts(
    source: SourceText, function: AggregateFunction, call: exp.Expr, args: Sequence[exp.Expr], order: exp.Expr | None
) -> Parts | None:
    """The parts of a call that has WITHIN GROUP or a meaning for it; None for other calls."""
    name, keys = function.name, list(order.expressions) if order is not None else []
    if name not in _FORMS and keys:
        message = f"{name} takes no WITHIN GROUP"
        raise source.error("AGGREGATE_WITHIN_GROUP", message, f"these do: {', '.join(_FORMS)}", at=call)
    if name == "listagg" and 1 <= len(args) <= 2:
        return _listagg(source, function, args, keys)
    if name == "listagg" or name not in _FORMS or (name == "mode" and not keys):
        return None
    if len(keys) != 1 or len(args) != (0 if name == "mode" else 1):
        raise _form(source, name, call)
    fractions = tuple(literal_value(source, function, arg) for arg in args)
    return (keys[0].this,), (*fractions, _directions(keys))


def refuse_other_order(source: SourceText, name: str, args: Sequence[exp.Expr]) -> None:
    """Refuse DISTINCT values that are sorted by something else: equal ones could have several places."""
    if any(render(arg) != render(args[0]) for arg in args[1:]):
        hint = f"write ORDER BY {source.quote(args[0])}, or leave DISTINCT out"
        message = f"{name}(DISTINCT …) can be sorted by its own values only"
        raise source.error("AGGREGATE_WITHIN_GROUP", message, hint, at=args[1])


def _listagg(
    source: SourceText, function: AggregateFunction, args: Sequence[exp.Expr], keys: Sequence[exp.Expr]
) -> Parts:
    delimiter: object = ""
    if len(args) == 2 and not isinstance(args[1], exp.Null):
        delimiter = literal_value(source, function, args[1])
    return (args[0], *(key.this for key in keys)), (delimiter, _directions(keys))


def _directions(keys: Sequence[exp.Expr]) -> WithinGroup:
    descending = tuple(bool(key.args.get("desc")) for key in keys)
    return WithinGroup(descending, tuple(bool(key.args.get("nulls_first")) for key in keys))


def _form(source: SourceText, name: str, call: exp.Expr) -> SqlError:
    message = f"{name} needs one sort key in WITHIN GROUP"
    return source.error("AGGREGATE_WITHIN_GROUP", message, f"write {_FORMS[name]}", at=call)
