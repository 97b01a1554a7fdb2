"""Every accumulator against a brute-force oracle over Python values, for any cut of the rows and order of merging."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.moments import oracle_pairs, shape, to_double
from tests.search import search
from windowpane.core.accumulators import Accumulator, Inputs, WithinGroup, build_accumulator, names, resolve
from windowpane.core.groups import Groups

WIDE = Context(prec=120)
GROUPS = 4
INDIFFERENT = {"first", "last", "any_value", "min_by", "max_by"}
"""They answer with one row whatever repeats, NULLs included: DISTINCT changes nothing."""


PAIRED = (
    *("covar_samp", "covar_pop", "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
    *("regr_slope", "regr_intercept", "regr_r2"),
)
TOLERANCES = {
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), 1e-14),
    **dict.fromkeys((*PAIRED, "skewness", "kurtosis"), 1e-9),
}
"""Functions whose results may differ from the exact ones in the last digits, and by how much."""


class Row(NamedTuple):
    args: tuple[Any, ...]
    ts: int
    arrival: int
    group: int
    batch: int


class Overflowed:
    """What the oracle answers where a result does not fit its type."""


def plain(value: Any) -> Any:
    """A value that is equal, and hashes equal, where SQL takes two values as one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def rank(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def float_sum(values: list[float]) -> float:
    special = [value for value in values if not math.isfinite(value)]
    return sum(special) if special else to_double(sum(map(Fraction, values), Fraction()))


def fits(value: Decimal, type_: pa.DataType) -> Decimal | Overflowed:
    return value if abs(value) < Decimal(10) ** (type_.precision - type_.scale) else Overflowed()


def oracle_sum(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    if isinstance(values[0], int):
        return sum(values) if -(2**63) <= sum(values) < 2**63 else Overflowed()
    if isinstance(values[0], float):
        return float_sum(values)
    return fits(sum(values[1:], values[0]), pa.decimal128(min(38, type_.precision + 10), type_.scale))


def oracle_avg(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    if isinstance(values[0], int):
        return float(sum(values)) / len(values)
    if isinstance(values[0], float):
        return float_sum(values) / len(values)
    scale = min(38, type_.scale + 4)
    mean = WIDE.divide(sum(values[1:], values[0]), Decimal(len(values)))
    rounded = mean.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE)
    return fits(rounded, pa.decimal128(min(38, type_.precision + 4), scale))


def spread(values: list[Any]) -> float | Fraction:
    doubles = [float(value) for value in values]
    if not all(map(math.isfinite, doubles)):
        return math.nan
    if any(math.isinf(value * value) for value in doubles):
        return math.inf
    exact = list(map(Fraction, doubles))
    mean = sum(exact) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction())


def deviation(*, sample: bool, root: bool) -> Callable[..., Any]:
    def oracle(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
        divisor = len(values) - sample
        if divisor == 0:
            return None
        total = spread(values)
        variance = to_double(total / divisor) if isinstance(total, Fraction) else total
        return math.sqrt(variance) if root else variance

    return oracle


def oracle_mode(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    counts = Counter(map(plain, values))
    return min((value for value in values if counts[plain(value)] == max(counts.values())), key=rank)


def interpolated(values: list[float], fraction: float, *, descending: bool = False) -> float:
    ordered = sorted(map(float, values), key=rank, reverse=descending)
    position = (len(values) - 1) * fraction
    lower, upper = math.floor(position), math.ceil(position)
    below, above = ordered[lower], ordered[upper]
    return below if lower == upper or below == above else (upper - position) * below + (position - lower) * above


def oracle_percentile(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    wanted = params[0] if params else 0.5
    down = len(params) > 1 and params[1].descending[0]
    if isinstance(wanted, list):
        return [interpolated(values, each, descending=down) for each in wanted]
    return interpolated(values, wanted, descending=down)


def oracle_percentile_disc(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    ordered = sorted(map(float, values), key=rank, reverse=len(params) > 1 and params[1].descending[0])
    return ordered[max(math.ceil(len(values) * params[0]) - 1, 0)]


def oracle_listagg(rows: list[tuple[Any, ...]], delimiter: str = "", within: WithinGroup = WithinGroup()) -> Any:  # noqa: B008
    kept = [args for args in rows if args[0] is not None]
    for place in reversed(range(len(within.descending))):
        present = [args for args in kept if args[place + 1] is not None]
        present.sort(key=lambda args, at=place + 1: rank(args[at]), reverse=within.descending[place])  # type: ignore[misc]
        absent = [args for args in kept if args[place + 1] is None]
        kept = absent + present if within.nulls_first[place] else present + absent
    return delimiter.join(args[0] for args in kept) if kept else None


def oracle_approx_percentile(values: list[Any], type_: pa.DataType, params: Sequence[Any]) -> Any:
    ascending = sorted(values, key=rank)
    picks = [ascending[max(math.ceil(each * len(values)), 1) - 1] for each in np.atleast_1d(params[0])]
    return picks if isinstance(params[0], list) else picks[0]


def distinct_values(values: list[Any]) -> list[Any]:
    return list({plain(value): value for value in reversed(values)}.values())[::-1]


def oracle_histogram(values: list[Any], _type: pa.DataType, params: Sequence[Any]) -> list[Any]:
    """Merges the two nearest bins, again and again, with all gaps computed anew."""
    whole = isinstance(values[0], int)
    counts = Counter(
        float("nan") if math.isnan(value) else float(value) + 0.0 for value in values if not math.isnan(value)
    )
    found = sorted([value, float(count)] for value, count in counts.items())
    unordered = sum(math.isnan(value) for value in values)
    found += [[math.nan, float(unordered)]] if unordered else []
    while len(found) > params[0]:
        gaps = [right[0] - left[0] for left, right in pairwise(found)]
        at = min(range(len(gaps)), key=lambda at: math.inf if math.isnan(gaps[at]) else gaps[at])
        (x, n), (y, m) = found[at : at + 2]
        found[at : at + 2] = [[(x * n + y * m) / (n + m), n + m]]
    return [{"x": int(x) if whole else x, "y": n} for x, n in found]


ONE_VALUE: dict[str, Callable[[list[Any], pa.DataType, Sequence[Any]], Any]] = {
    "sum": oracle_sum,
    "avg": oracle_avg,
    "min": lambda values, _t, _p: min(values, key=rank),
    "max": lambda values, _t, _p: max(values, key=rank),
    "var_samp": deviation(sample=True, root=False),
    "var_pop": deviation(sample=False, root=False),
    "stddev_samp": deviation(sample=True, root=True),
    "stddev_pop": deviation(sample=False, root=True),
    "count_if": lambda values, _t, _p: sum(values),
    "bool_and": lambda values, _t, _p: all(values),
    "bool_or": lambda values, _t, _p: any(values),
    "bit_and": lambda values, _t, _p: functools.reduce(operator.and_, values),
    "bit_or": lambda values, _t, _p: functools.reduce(operator.or_, values),
    "bit_xor": lambda values, _t, _p: functools.reduce(operator.xor, values),
    "skewness": shape(3),
    "kurtosis": shape(4),
    "mode": oracle_mode,
    "median": oracle_percentile,
    "percentile": oracle_percentile,
    "percentile_cont": oracle_percentile,
    "percentile_disc": oracle_percentile_disc,
    "approx_percentile": oracle_approx_percentile,
    "histogram_numeric": oracle_histogram,
}
"""Oracles that see one argument's values without NULLs, at least one."""


def oracle_top_k(rows: list[tuple[Any, ...]], number: int = 5, _tracked: int = 10_000) -> list[Any]:
    counts = Counter(value for (value,) in rows)
    items = sorted(counts, key=lambda item: (-counts[item], item is None, 0 if item is None else item))
    return [{"item": item, "count": counts[item]} for item in items[:number]]


OF_ROWS: dict[str, Callable[..., Any]] = {"listagg": oracle_listagg, "approx_top_k": oracle_top_k}
"""Oracles that see all rows, those with a NULL too."""


def oracle_by(function: str, rows: list[tuple[Any, ...]], number: int | None = None) -> Any:
    latest_first = rows[::-1]
    best = sorted(latest_first, key=lambda args: rank(args[1]), reverse=function == "max_by")
    if number is None:
        return best[0][0] if best else None
    return [args[0] for args in best[:number]] or None


def answer_of_pairs(function: str, pairs: list[tuple[Any, ...]], types: list[pa.DataType]) -> Any:
    if function not in ("regr_avgx", "regr_avgy"):
        return oracle_pairs(function, pairs)
    side = int(function == "regr_avgx")
    return oracle_avg([pair[side] for pair in pairs], types[side], ()) if pairs else None


def answer(function: str, rows: list[Row], types: list[pa.DataType], params: Sequence[Any], distinct: bool) -> Any:
    ordered = sorted(rows, key=lambda row: (row.ts, row.arrival))
    if distinct and function not in INDIFFERENT:
        whole = [row for row in ordered if None not in row.args]
        ordered = list({tuple(map(plain, row.args)): row for row in reversed(whole)}.values())[::-1]
        ordered.sort(key=lambda row: (row.ts, row.arrival))
    values = [row.args[0] for row in ordered if row.args and row.args[0] is not None]
    if function in OF_ROWS:
        return OF_ROWS[function]([row.args for row in ordered], *params)
    if function in PAIRED:
        return answer_of_pairs(function, [row.args for row in ordered if None not in row.args], types)
    match function:
        case "count":
            return sum(None not in row.args for row in ordered)
        case "first" | "any_value" | "last":
            kept = [row.args[0] for row in ordered] if params and not params[0] else values
            return None if not kept else kept[-1 if function == "last" else 0]
        case "min_by" | "max_by":
            return oracle_by(function, [row.args for row in ordered if row.args[1] is not None], *params)
        case "collect_list":
            return values
        case "collect_set":
            seen: dict[Any, Any] = {}
            return [seen.setdefault(plain(value), value) for value in values if plain(value) not in seen]
        case "approx_count_distinct":
            return len(set(map(plain, values)))
    empty = 0 if function == "count_if" else None
    return ONE_VALUE[function](values, types[0], params) if values else empty


def oracle(function: str, rows: list[Row], types: list[pa.DataType], params: Sequence[Any], distinct: bool) -> Any:
    with localcontext(WIDE):
        return answer(function, rows, types, params, distinct)


def assert_same(actual: Any, expected: Any, tolerance: float | None) -> None:
    if tolerance is not None and isinstance(expected, float) and math.isfinite(expected):
        assert actual == pytest.approx(expected, rel=tolerance, abs=1e-300 if tolerance < 1e-9 else 1e-9)
    else:
        assert plain(actual) == plain(expected)
        assert type(actual) is type(expected)


def check(accumulator: Accumulator, states: list[pa.Array], expected: list[Any], function: str) -> None:
    assert [state.type for state in states] == list(accumulator.state_types)
    result = accumulator.evaluate(states)
    assert result.values.type == accumulator.output_type
    overflow = result.overflow if result.overflow is not None else np.zeros(len(expected), np.bool_)
    for actual, wanted, overflowed in zip(result.values.to_pylist(), expected, overflow.tolist(), strict=True):
        assert overflowed == isinstance(wanted, Overflowed)
        assert_same(actual, None if overflowed else wanted, TOLERANCES.get(function))


DATES = st.dates(dt.date(1960, 1, 1), dt.date(2040, 1, 1))
TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2040, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001
SPECIAL = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 0.1, 1e300, -1e300, 1.7e308, 5e-324])
MODERATE = st.floats(-1e6, 1e6, width=32) | st.integers(0, 9).map(lambda step: 1e9 + step / 8)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**62])),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats() | SPECIAL),
    "moderate": (pa.float64(), MODERATE | st.sampled_from([math.nan, math.inf, 1e155])),
    "small": (pa.float64(), st.integers(-40, 40).map(lambda step: 1e6 + step / 8) | st.just(math.nan)),
    "decimal": (pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2)),
    "wide": (pa.decimal128(38, 3), st.integers(1 - 10**38, 10**38 - 1).map(lambda x: Decimal(x).scaleb(-3, WIDE))),
    "string": (pa.string(), st.text(max_size=3)),
    "binary": (pa.binary(), st.binary(max_size=2)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), DATES),
    "timestamp": (pa.timestamp("us", "UTC"), TIMES),
}
NUMBERS = ("int8", "int64", "float32", "float64", "decimal", "wide")
INTEGERS = ("int8", "int64")
SHAPED = ("int8", "small", "decimal")
SPREADING = ("int8", "moderate", "decimal")
UP, DOWN, NULLS_LAST = WithinGroup((False,), (True,)), WithinGroup((True,), (False,)), WithinGroup((False,), (False,))
CASES: dict[str, tuple[tuple[tuple[str, ...], ...], tuple[tuple[Any, ...], ...]]] = {
    "count": (((), tuple(TYPES), ("int8", "string")), ((),)),
    "count_if": ((("bool",),), ((),)),
    "sum": ((NUMBERS,), ((),)),
    "avg": ((NUMBERS,), ((),)),
    "min": ((tuple(TYPES),), ((),)),
    "max": ((tuple(TYPES),), ((),)),
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), ((SPREADING,), ((),))),
    **dict.fromkeys(("first", "last", "any_value"), ((tuple(TYPES),), ((), (True,), (False,)))),
    **dict.fromkeys(("min_by", "max_by"), ((("int8", "string"), tuple(TYPES)), ((), (2,)))),
    **dict.fromkeys(("bool_and", "bool_or"), ((("bool",),), ((),))),
    **dict.fromkeys(("collect_list", "collect_set"), ((tuple(TYPES),), ((),))),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), ((INTEGERS,), ((),))),
    **dict.fromkeys(("skewness", "kurtosis"), ((SHAPED,), ((),))),
    **dict.fromkeys(PAIRED, ((SHAPED, SHAPED), ((),))),
    "mode": ((tuple(TYPES),), ((), (True,), (False,))),
    "histogram_numeric": ((("int8", "float64"),), ((2,), (4,), (100,))),
    "approx_top_k": ((("int8", "int64", "string", "bool", "date"),), ((), (2,), (3, 100))),
    "percentile_cont": ((("int8", "float64", "decimal"),), ((0.3, DOWN), ([0.0, 0.7], UP))),
    "percentile_disc": ((("int8", "float64", "decimal"),), ((0.3, DOWN), (0.5, UP))),
    "listagg": ((("string",), tuple(TYPES)), ((",", DOWN), ("", UP), ("", NULLS_LAST))),
    "median": ((("int8", "float64", "decimal"),), ((),)),
    "percentile": ((("int8", "float64", "decimal"),), ((0.3,), ([0.0, 0.25, 1.0],))),
    "approx_count_distinct": ((tuple(TYPES),), ((), (0.01,))),
    "approx_percentile": (((*NUMBERS, "date", "timestamp"),), ((0.3,), ([0.0, 0.5, 1.0], 100))),
}
"""Per function: the types each argument may have, and the literal parameters it is tried with."""


class Call(NamedTuple):
    types: list[pa.DataType]
    values: st.SearchStrategy[tuple[Any, ...]]
    params: tuple[Any, ...]


@st.composite
def calls(draw: st.DrawFn, function: str) -> Call:
    arguments, params = CASES[function]
    if function == "count":
        arguments = arguments[1:][: draw(st.integers(0, 2))]
    chosen = [TYPES[draw(st.sampled_from(names_))] for names_ in arguments]
    values = st.tuples(*(st.none() | values for _, values in chosen))
    return Call([type_ for type_, _ in chosen], values, draw(st.sampled_from(params)))


def inputs_of(rows: list[Row], types: list[pa.DataType]) -> tuple[Inputs, Groups]:
    args = [pa.array([row.args[index] for row in rows], type_) for index, type_ in enumerate(types)]
    ts, arrival, ids = (np.array([row[index] for row in rows], np.int64) for index in (1, 2, 3))
    return Inputs(args, ts, arrival), Groups(ids, GROUPS)


@st.composite
def row_lists(draw: st.DrawFn, values: st.SearchStrategy[tuple[Any, ...]]) -> list[Row]:
    drawn = draw(st.lists(st.tuples(values, st.integers(-2, 2), st.integers(0, 2), st.integers(0, 2)), max_size=12))
    places = draw(st.permutations(range(len(drawn))))
    return [Row(args, ts, place, group, batch) for (args, ts, group, batch), place in zip(drawn, places, strict=True)]


def test_every_built_in_aggregate_has_a_case() -> None:
    assert set(CASES) == {resolve(name).name for name in names()}


@pytest.mark.parametrize("function", sorted(CASES))
@search(9)
@given(data=st.data())
def test_any_cut_and_any_order_of_merging_gives_what_the_oracle_gives(function: str, data: st.DataObject) -> None:
    call = data.draw(calls(function))
    rows = data.draw(row_lists(call.values))
    entry = resolve(function)
    other = bool(entry.parameters_change_result and call.params)
    distinct = bool(call.types) and entry.takes_distinct and not other and data.draw(st.booleans())
    accumulator = build_accumulator(function, call.types, call.params, distinct)
    parts = [
        accumulator.update(*inputs_of([row for row in rows if row.batch == batch], call.types)) for batch in range(3)
    ]
    order = data.draw(st.permutations(range(3 * GROUPS)))
    states = [pa.concat_arrays(columns).take(pa.array(order)) for columns in zip(*parts, strict=True)]
    cut = data.draw(st.integers(0, 3 * GROUPS))
    ids = np.array(order, np.int64) % GROUPS
    halves = [accumulator.merge([s.slice(0, cut) for s in states], Groups(ids[:cut], GROUPS))]
    halves += [accumulator.merge([s.slice(cut) for s in states], Groups(ids[cut:], GROUPS))]
    both = Groups(np.tile(np.arange(GROUPS), 2), GROUPS)
    merged = accumulator.merge([pa.concat_arrays(columns) for columns in zip(*halves, strict=True)], both)
    expected = [
        oracle(function, [row for row in rows if row.group == group], call.types, call.params, distinct)
        for group in range(GROUPS)
    ]
    check(accumulator, merged, expected, function)
    check(accumulator, accumulator.update(*inputs_of(rows, call.types)), expected, function)


@pytest.mark.parametrize("function", sorted(name for name in CASES if resolve(name).ranged))
@search(9)
@given(data=st.data())
def test_ranges_give_what_the_oracle_gives_for_their_rows(function: str, data: st.DataObject) -> None:
    call = data.draw(calls(function).filter(lambda call: resolve(function).has_ranges(call.params)))
    rows = sorted(data.draw(row_lists(call.values)), key=lambda row: (row.ts, row.arrival))
    bounds = st.integers(0, len(rows))
    ranges = [sorted(pair) for pair in data.draw(st.lists(st.tuples(bounds, bounds), max_size=8))]
    low, high = (np.array([pair[side] for pair in ranges], np.int64) for side in (0, 1))
    accumulator = build_accumulator(function, call.types, call.params)
    states = accumulator.over_ranges(inputs_of(rows, call.types)[0], low, high)  # type: ignore[attr-defined]
    expected = [oracle(function, rows[start:end], call.types, call.params, distinct=False) for start, end in ranges]
    check(accumulator, states, expected, function)
