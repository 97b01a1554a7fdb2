"""The registry of aggregates: names and aliases to what the binder must know of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from windowpane.core.accumulators import count, extremes, sums
from windowpane.core.accumulators.base import Accumulator, AggregateFunction
from windowpane.errors import PlanError, nearest

MANY = 255
"""As many arguments as anyone writes."""

_BUILT_IN = (
    AggregateFunction("count", 0, MANY, count.build_count, ranged=True),
    AggregateFunction("count_if", 1, 1, count.build_count_if, ranged=True),
    AggregateFunction("sum", 1, 1, sums.build_sum, ranged=True),
    AggregateFunction("avg", 1, 1, sums.build_avg, ranged=True),
    AggregateFunction("min", 1, 1, extremes.build_min, ranged=True),
    AggregateFunction("max", 1, 1, extremes.build_max, ranged=True),
)
_ALIASES = {"mean": "avg"}

_functions = {function.name: function for function in _BUILT_IN}


def register(function: AggregateFunction) -> None:
    """Add an aggregate. A name that is taken is refused, with PlanError AGGREGATE_EXISTS."""
    name = function.name.lower()
    if name in _functions or name in _ALIASES:
        raise PlanError("AGGREGATE_EXISTS", f"there is already an aggregate `{function.name}`", "give it another name")
    _functions[name] = function


def names() -> list[str]:
    """All names that `resolve` knows, aliases among them."""
    return sorted({*_functions, *_ALIASES})


def resolve(name: str) -> AggregateFunction:
    """The function of that name or alias, in any case; PlanError UNKNOWN_AGGREGATE otherwise."""
    folded = name.lower()
    function = _functions.get(_ALIASES.get(folded, folded))
    if function is None:
        raise PlanError("UNKNOWN_AGGREGATE", f"there is no aggregate `{name}`", f"valid: {nearest(name, names())}")
    return function


def build_accumulator(
    function_name: str,
    arg_types: Sequence[pa.DataType],
    params: Sequence[object] = (),
    distinct: bool = False,  # noqa: FBT001, FBT002
) -> Accumulator:
    """The accumulator of one call. `arg_types` are those of its columns, `params` its literals."""
    function = resolve(function_name)
    return function.build(arg_types, params)


def state_bytes(states: Sequence[pa.Array]) -> int:
    """Bytes that state columns take."""
    return sum(state.nbytes for state in states)
