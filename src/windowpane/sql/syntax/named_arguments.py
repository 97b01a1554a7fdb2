"""Arguments given by name, `tumblingwindow(unit => 'ss', size => 10)`, in the order in which a function takes them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from windowpane.errors import nearest
from windowpane.sql.syntax.source import SourceText


def positional(source: SourceText, call: exp.Expr, parameters: Sequence[str], form: str) -> tuple[exp.Expr, ...]:
    """The arguments of a call by position. Those by name come last; `parameters` are the names in lower case."""
    places: dict[int, exp.Expr] = {}
    is_named = False
    for index, argument in enumerate(call.expressions):
        if not isinstance(argument, exp.Kwarg):
            if is_named:
                message = "an argument by position follows one by name"
                raise source.error("WINDOW_ARITY", message, f"write {form}", at=argument)
            places[index] = argument
            continue
        place, is_named = _place(source, argument, parameters, form), True
        if place in places:
            message = f"the argument `{argument.this.name}` is given twice"
            raise source.error("WINDOW_ARITY", message, f"write {form}", at=argument)
        places[place] = argument.expression
    missing = [parameters[place] for place in range(max(places, default=-1)) if place not in places]
    if missing:
        raise source.error("WINDOW_ARITY", f"the argument `{missing[0]}` is missing", f"write {form}", at=call)
    return tuple(places[place] for place in sorted(places))


def _place(source: SourceText, argument: exp.Kwarg, parameters: Sequence[str], form: str) -> int:
    name = argument.this.name
    if name.lower() not in parameters:
        hint = f"arguments are: {nearest(name, parameters)}, as in {form}"
        raise source.error("UNKNOWN_OPTION", f"there is no argument `{name}`", hint, at=argument)
    return parameters.index(name.lower())
