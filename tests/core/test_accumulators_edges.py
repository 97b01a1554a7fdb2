"""What random rows of a few values do not reach: overflow, cancellation, large groups, wrong types, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from windowpane.core.accumulators import (
    Accumulator,
    AggregateFunction,
    Inputs,
    build_accumulator,
    keeps_set,
    names,
    register,
    resolve,
)
from windowpane.core.groups import Groups
from windowpane.errors import PlanError


def state_bytes(states: Sequence[pa.Array]) -> int:
    return sum(state.nbytes for state in states)


def rows_of(*args: pa.Array) -> Inputs:
    places = np.arange(len(args[0]), dtype=np.int64)
    return Inputs(list(args), places, places)


def one_group(length: int) -> Groups:
    return Groups(np.zeros(length, np.int64), 1)


def merged_in_pieces(accumulator: Accumulator, array: pa.Array, pieces: int) -> list[pa.Array]:
    cuts = np.array_split(np.arange(len(array)), pieces)
    states = [accumulator.update(rows_of(array).take(rows), one_group(len(rows))) for rows in cuts]
    columns = [pa.concat_arrays(column) for column in zip(*states, strict=True)]
    return accumulator.merge(columns, one_group(pieces))


def value_of(function: str, array: pa.Array, *params: object) -> object:
    accumulator = build_accumulator(function, [array.type], params)
    return accumulator.evaluate(accumulator.update(rows_of(array), one_group(len(array)))).values[0].as_py()


def test_an_integer_sum_may_leave_int64_and_come_back() -> None:
    accumulator = build_accumulator("sum", [pa.int64()])
    over = accumulator.update(rows_of(pa.array([2**63 - 1] * 3)), one_group(3))
    back = accumulator.update(rows_of(pa.array([-(2**63)] * 3)), one_group(3))
    marked = accumulator.evaluate(over)
    assert marked.overflow is not None
    assert (marked.values.to_pylist(), marked.overflow.tolist()) == ([None], [True])
    both = accumulator.merge([pa.concat_arrays(pair) for pair in zip(over, back, strict=True)], one_group(2))
    assert accumulator.evaluate(both).values.to_pylist() == [-3]


def test_a_decimal_sum_beyond_38_digits_is_marked_and_may_come_back() -> None:
    accumulator = build_accumulator("sum", [pa.decimal128(38, 0)])
    large = pa.array([Decimal(10**38 - 1)] * 2 + [Decimal(1 - 10**38)], pa.decimal128(38, 0))
    two = accumulator.evaluate(accumulator.update(rows_of(large.slice(0, 2)), one_group(2)))
    assert two.overflow is not None
    assert (two.values.to_pylist(), two.overflow.tolist()) == ([None], [True])
    assert accumulator.evaluate(merged_in_pieces(accumulator, large, 3)).values.to_pylist() == [Decimal(10**38 - 1)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e300, 1.0, 1e150, -1e300, -1e150], 1.0),
        ([1e308, 1e308, -1e308], 1e308),
        ([2.0**53, 1.0, 2.0**-60], 2.0**53 + 2),
        ([0.1] * 10, 1.0),
        ([math.inf, -math.inf], math.nan),
        ([1e308, 1e308], math.inf),
    ],
)
def test_float_sums_are_the_nearest_double_however_they_are_cut(values: list[float], expected: float) -> None:
    accumulator = build_accumulator("sum", [pa.float64()])
    for pieces in range(1, len(values) + 1):
        actual = accumulator.evaluate(merged_in_pieces(accumulator, pa.array(values), pieces)).values[0].as_py()
        assert actual == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


def test_float_sums_of_many_rows_equal_fsum() -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=20_000) * 10.0 ** random.integers(-30, 30, 20_000)
    accumulator = build_accumulator("sum", [pa.float64()])
    for pieces in (1, 7, 100):
        actual = accumulator.evaluate(merged_in_pieces(accumulator, pa.array(values), pieces)).values[0].as_py()
        assert actual == math.fsum(values)


def test_a_float_range_sum_knows_nothing_of_its_neighbours() -> None:
    values = pa.array([1e300, 0.1, 0.2, math.nan, 0.3, math.inf])
    accumulator = build_accumulator("sum", [pa.float64()])
    low, high = np.array([1, 4, 4, 3]), np.array([3, 5, 6, 4])
    states = accumulator.over_ranges(rows_of(values), low, high)  # type: ignore[attr-defined]
    actual = accumulator.evaluate(states).values.to_pylist()
    assert actual[:3] == [0.1 + 0.2, 0.3, math.inf]
    assert math.isnan(actual[3])


def test_a_variance_far_from_zero_keeps_its_digits_however_it_is_cut() -> None:
    values = 1e12 + np.random.default_rng(2).random(5000)
    exact = list(map(Fraction, values.tolist()))
    mean = sum(exact) / len(exact)
    expected = float(sum((value - mean) ** 2 for value in exact) / (len(exact) - 1))
    accumulator = build_accumulator("var_samp", [pa.float64()])
    for pieces in (1, 50):
        actual = accumulator.evaluate(merged_in_pieces(accumulator, pa.array(values), pieces)).values[0].as_py()
        assert actual == pytest.approx(expected, rel=1e-15)


def test_the_variance_of_equal_values_is_zero() -> None:
    assert value_of("var_pop", pa.array([0.1] * 1000)) == 0.0


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "stddev", "first", "collect_list", "median"])
def test_no_rows_and_one_row(function: str, length: int) -> None:
    accumulator = build_accumulator(function, [pa.int64()])
    states = accumulator.update(rows_of(pa.array([7] * length, pa.int64())), one_group(length))
    empty = {"count": 0, "collect_list": []}.get(function)
    one = {"count": 1, "collect_list": [7], "stddev": None}.get(function, 7)
    assert accumulator.evaluate(states).values.to_pylist() == [one if length else empty]
    nothing = accumulator.update(rows_of(pa.array([], pa.int64())), Groups(np.zeros(0, np.int64), 0))
    assert accumulator.evaluate(nothing).values.to_pylist() == []


def test_approx_count_distinct_is_near_and_does_not_depend_on_cuts() -> None:
    values = pa.array(np.arange(30_000) % 20_000)
    accumulator = build_accumulator("approx_count_distinct", [values.type], (0.02,))
    estimates = {
        accumulator.evaluate(merged_in_pieces(accumulator, values, pieces)).values[0].as_py() for pieces in (1, 2, 9)
    }
    assert len(estimates) == 1
    assert estimates.pop() == pytest.approx(20_000, rel=0.06)


@pytest.mark.parametrize("pieces", [1, 40])
def test_approx_percentile_of_a_large_group_is_near_and_bounded(pieces: int) -> None:
    values = np.random.default_rng(11).permutation(60_000)
    accumulator = build_accumulator("approx_percentile", [pa.int64()], ([0.01, 0.5, 0.99], 500))
    states = merged_in_pieces(accumulator, pa.array(values), pieces)
    found = accumulator.evaluate(states).values[0].as_py()
    assert found == pytest.approx([600, 30_000, 59_400], abs=60_000 * 0.005)
    assert state_bytes(states) < 500 * 9 * 9
    again = accumulator.evaluate(merged_in_pieces(accumulator, pa.array(values), pieces)).values[0].as_py()
    assert again == found


def test_approx_top_k_of_many_values_finds_the_frequent_ones_in_bounded_state() -> None:
    values = np.where(np.arange(30_000) % 10 == 0, -1, np.arange(30_000))
    accumulator = build_accumulator("approx_top_k", [pa.int64()], (1, 100))
    for pieces in (1, 40):
        states = merged_in_pieces(accumulator, pa.array(values), pieces)
        (top,) = accumulator.evaluate(states).values[0].as_py()
        assert top["item"] == -1
        assert 3000 <= top["count"] <= 3000 + 30_000 / 100
        assert state_bytes(states) < 100 * 16 + 100


def test_states_of_growing_input_stay_the_same_size() -> None:
    for function in ("count", "sum", "avg", "max", "stddev", "first", "approx_count_distinct"):
        accumulator = build_accumulator(function, [pa.float64()])
        sizes = [
            state_bytes(accumulator.update(rows_of(pa.array(np.random.default_rng(1).random(n))), one_group(n)))
            for n in (10_000, 20_000)
        ]
        assert sizes[1] <= sizes[0] + 16, function


@pytest.mark.parametrize(
    ("function", "types", "valid"),
    [
        ("sum", [pa.string()], "DECIMAL"),
        ("avg", [pa.bool_()], "DOUBLE"),
        ("min", [pa.list_(pa.int64())], "STRING"),
        ("max_by", [pa.int64(), pa.map_(pa.int64(), pa.int64())], "STRING"),
        ("bool_and", [pa.int64()], "BOOLEAN"),
        ("stddev", [pa.date32()], "BIGINT"),
    ],
)
def test_a_type_that_does_not_fit_is_refused_with_what_would(
    function: str, types: list[pa.DataType], valid: str
) -> None:
    with pytest.raises(PlanError) as caught:
        build_accumulator(function, types)
    assert caught.value.code == "AGGREGATE_TYPE"
    assert valid in str(caught.value.hint)


def test_the_message_names_the_function_and_the_type_in_sparks_words() -> None:
    with pytest.raises(PlanError, match=r"`sum` does not take a value of type ARRAY<BIGINT>"):
        build_accumulator("sum", [pa.list_(pa.int64())])


@pytest.mark.parametrize(
    ("function", "params"),
    [
        ("percentile", (1.5,)),
        ("percentile", ("x",)),
        ("percentile", ([],)),
        ("approx_percentile", (0.5, 0)),
        ("approx_count_distinct", (2,)),
        ("first", (1,)),
        ("approx_top_k", (0,)),
        ("approx_top_k", (20, 10)),
        ("histogram_numeric", (1,)),
        ("histogram_numeric", ("x",)),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(function: str, params: tuple[object, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        build_accumulator(function, [pa.int64()], params)
    assert caught.value.code == "AGGREGATE_PARAM"


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert resolve("Percentile_Approx") is resolve("approx_percentile")
    assert {"mean", "avg", "every", "array_agg"} <= set(names())


def test_an_unknown_name_lists_the_nearest_first() -> None:
    with pytest.raises(PlanError) as caught:
        resolve("meen")
    assert caught.value.code == "UNKNOWN_AGGREGATE"
    assert str(caught.value.hint).startswith("valid: mean")


def test_a_name_that_is_taken_cannot_be_registered() -> None:
    with pytest.raises(PlanError) as caught:
        register(AggregateFunction("MEAN", 1, 1, resolve("avg").build))
    assert caught.value.code == "AGGREGATE_EXISTS"


@pytest.mark.parametrize(("types", "params"), [([], ()), ([pa.int64()] * 2, ()), ([pa.int64()], (1,))])
def test_a_wrong_number_of_arguments_is_refused(types: list[pa.DataType], params: tuple[object, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        build_accumulator("sum", types, params)
    assert caught.value.code == "AGGREGATE_ARGUMENTS"


def test_only_distinct_sets_lose_their_ranges() -> None:
    assert keeps_set("count", distinct=True)
    assert not keeps_set("max", distinct=True)
    assert hasattr(build_accumulator("max", [pa.int64()], (), True), "over_ranges")
    assert not hasattr(build_accumulator("count", [pa.int64()], (), True), "over_ranges")


@pytest.mark.parametrize("name", [name for name in names() if resolve(name).ranged])
def test_a_ranged_function_has_over_ranges(name: str) -> None:
    types = {"bool_and": [pa.bool_()], "bool_or": [pa.bool_()], "count_if": [pa.bool_()]}.get(resolve(name).name)
    pair = [pa.int64()] * max(resolve(name).min_args, 1)
    assert hasattr(build_accumulator(name, types or pair), "over_ranges")
