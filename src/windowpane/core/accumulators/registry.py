"""The registry of aggregates: names and aliases to what the binder must know of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators import (
    approx_count_distinct,
    approx_percentile,
    approx_top_k,
    bits,
    booleans,
    collect,
    count,
    first_last,
    histogram_numeric,
    listagg,
    min_max,
    min_max_by,
    mode,
    pairs,
    percentiles,
    shapes,
    sums,
    variance,
)
from windowpane.core.accumulators.base import Accumulator, AggregateFunction
from windowpane.core.accumulators.distinct import DistinctAccumulator
from windowpane.core.accumulators.user import UserAggregate, as_function
from windowpane.errors import PlanError, nearest

MANY = 255
"""As many arguments as anyone writes."""


def _variance(name: str, *, sample: bool, root: bool) -> AggregateFunction:
    def build(types: Sequence[pa.DataType], params: Sequence[object]) -> Accumulator:  # noqa: ARG001
        return variance.build_variance(name, types, sample=sample, root=root)

    return AggregateFunction(name, 1, 1, build, ranged=True)


_ranged = partial(AggregateFunction, ranged=True)
_whole = partial(AggregateFunction, incremental=False)
_sketch = partial(AggregateFunction, cut_matters=True)

_BUILT_IN = (
    _ranged("count", 0, MANY, count.build_count),
    _ranged("count_if", 1, 1, count.build_count_if),
    _ranged("sum", 1, 1, sums.build_sum),
    _ranged("avg", 1, 1, sums.build_avg),
    _ranged("min", 1, 1, min_max.build_min),
    _ranged("max", 1, 1, min_max.build_max),
    _variance("var_samp", sample=True, root=False),
    _variance("var_pop", sample=False, root=False),
    _variance("stddev_samp", sample=True, root=True),
    _variance("stddev_pop", sample=False, root=True),
    _ranged("first", 1, 2, first_last.build_first, params=1),
    _ranged("last", 1, 2, first_last.build_last, params=1),
    _ranged("any_value", 1, 2, first_last.build_first, params=1),
    _ranged("min_by", 2, 3, min_max_by.build_min_by, params=1, parameters_change_result=True),
    _ranged("max_by", 2, 3, min_max_by.build_max_by, params=1, parameters_change_result=True),
    _ranged("bool_and", 1, 1, booleans.build_bool_and),
    _ranged("bool_or", 1, 1, booleans.build_bool_or),
    _ranged("bit_and", 1, 1, bits.bits_builder("bit_and", np.bitwise_and)),
    _ranged("bit_or", 1, 1, bits.bits_builder("bit_or", np.bitwise_or)),
    _ranged("bit_xor", 1, 1, bits.bits_builder("bit_xor", np.bitwise_xor)),
    *(_ranged(name, 2, 2, pairs.pair_builder(name)) for name in pairs.OF_BOTH),
    *(_ranged(name, 2, 2, pairs.pair_builder(name), takes_distinct=False) for name in pairs.OF_ONE),
    _ranged("regr_avgx", 2, 2, pairs.build_regr_avgx, takes_distinct=False),
    _ranged("regr_avgy", 2, 2, pairs.build_regr_avgy, takes_distinct=False),
    _ranged("regr_count", 2, 2, count.build_count),
    AggregateFunction("skewness", 1, 1, shapes.build_skewness),
    AggregateFunction("kurtosis", 1, 1, shapes.build_kurtosis),
    AggregateFunction("mode", 1, 2, mode.build_mode, params=1, takes_distinct=False),
    _whole("collect_list", 1, 1, collect.build_collect_list),
    _whole("collect_set", 1, 1, collect.build_collect_set),
    _whole("median", 1, 1, percentiles.build_median),
    _whole("percentile", 2, 2, percentiles.build_percentile, params=1),
    _whole("percentile_cont", 2, 3, percentiles.build_percentile_cont, params=2, takes_distinct=False),
    _whole("percentile_disc", 2, 3, percentiles.build_percentile_disc, params=2, takes_distinct=False),
    _whole("listagg", 1, MANY, listagg.build_listagg, params=2),
    AggregateFunction("approx_count_distinct", 1, 2, approx_count_distinct.build_approx_count_distinct, params=1),
    _sketch("approx_top_k", 1, 3, approx_top_k.build_approx_top_k, params=2, takes_distinct=False),
    _sketch("histogram_numeric", 2, 2, histogram_numeric.build_histogram_numeric, params=1),
    _sketch("approx_percentile", 2, 3, approx_percentile.build_approx_percentile, params=2),
)
_ALIASES = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "array_agg": "collect_list",
    "percentile_approx": "approx_percentile",
    "string_agg": "listagg",
}
_SAME_WITH_DISTINCT = frozenset(
    {"min", "max", "first", "last", "any_value", "min_by", "max_by", "bool_and", "bool_or"}
    | {"collect_set", "approx_count_distinct", "bit_and", "bit_or"}
)
"""Aggregates that a repeated value does not change: they stay as cheap, and as ranged, as they are."""
_ORDER_FREE = frozenset(
    {"count", "count_if", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"}
    | {"median", "percentile", "approx_percentile", "bit_xor", "skewness", "kurtosis"}
    | {*pairs.OF_BOTH, "regr_count"}
)
"""Aggregates whose DISTINCT set needs no order. Users' own are taken to need it."""

_functions = {function.name: function for function in _BUILT_IN}


def register(function: AggregateFunction | type[UserAggregate], *, replace: bool = False) -> None:
    """Add an aggregate. A name that is taken is refused, with PlanError AGGREGATE_EXISTS, unless `replace`."""
    entry = function if isinstance(function, AggregateFunction) else as_function(function)
    name = entry.name.lower()
    if (name in _functions and not replace) or name in _ALIASES:
        raise PlanError("AGGREGATE_EXISTS", f"there is already an aggregate `{entry.name}`", "give it another name")
    _functions[name] = entry


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


def keeps_set(function_name: str, *, distinct: bool) -> bool:
    """True when the state of the call is a set of values: it has no `over_ranges`, though the function may have."""
    return distinct and resolve(function_name).name not in _SAME_WITH_DISTINCT


def build_accumulator(
    function_name: str,
    arg_types: Sequence[pa.DataType],
    params: Sequence[object] = (),
    distinct: bool = False,  # noqa: FBT001, FBT002  # as in the SQL, between the name and the arguments
) -> Accumulator:
    """The accumulator of one call. `arg_types` are those of its columns, `params` its literals."""
    function = resolve(function_name)
    _check_arguments(function, function_name, len(arg_types), len(params))
    inner = function.build(arg_types, params)
    if distinct and function.parameters_change_result and params:
        raise _no_distinct(function_name)
    if not keeps_set(function_name, distinct=distinct):
        return inner
    if not function.takes_distinct or not arg_types:
        raise _no_distinct(function_name)
    ordered = function.name not in _ORDER_FREE
    return DistinctAccumulator(function_name, inner, arg_types, ordered=ordered)


def _no_distinct(written: str) -> PlanError:
    return PlanError("AGGREGATE_DISTINCT", f"`{written}` does not take DISTINCT here", "leave DISTINCT out")


def _check_arguments(function: AggregateFunction, written: str, columns: int, params: int) -> None:
    most = function.max_args - function.params
    least = min(function.min_args, most)
    if least <= columns <= most and function.min_args <= columns + params <= function.max_args:
        return
    wanted = str(function.min_args) if function.min_args == function.max_args else f"{function.min_args} or more"
    raise PlanError(
        "AGGREGATE_ARGUMENTS",
        f"`{written}` does not take {columns + params} arguments",
        f"it takes {wanted}, the last {function.params} of them literals" if function.params else f"it takes {wanted}",
    )
