"""Users' functions in the workers: NULL for the rows on which they raise, a list of one value for the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import DateType, LongType

from windowpane.spark.shielded_calls import ArrowCall, PandasCall, RowCall

VALUES = [1, 0, 2, 3, 4, 0]
COMPUTABLE = [True, True, True, False, None, True]
WANTED = [[12], None, [6], None, None, None]


def test_a_function_of_a_row() -> None:
    call = RowCall(lambda value, by=12: by // value, LongType())
    assert [call(ok, value) for ok, value in zip(COMPUTABLE, VALUES, strict=True)] == WANTED
    assert call(True, 2, by=8) == [4]


def test_a_value_that_is_not_of_its_type() -> None:
    call = RowCall(lambda value: value, DateType())
    day = dt.date(2024, 1, 1)
    assert (call(True, day), call(True, None), call(True, "no date")) == ([day], [None], None)


def short(values: Any) -> Any:
    return values[:-1]


def test_a_function_of_arrow_columns() -> None:
    call = ArrowCall(lambda values: pc.divide(pa.scalar(12), values), LongType())
    assert call(pa.array(COMPUTABLE), pa.array(VALUES)).to_pylist() == WANTED
    assert call(pa.array([True] * 3), pa.array([3, None, 0])).to_pylist() == [[4], [None], None]
    assert call(pa.array([], pa.bool_()), pa.array([], pa.int64())).to_pylist() == []
    assert ArrowCall(short, LongType())(pa.array([True] * 2), pa.array([1, 2])).to_pylist() == [None, None]


def test_a_function_of_pandas_columns() -> None:
    def divided(values: Any) -> Any:
        if (values == 0).any():
            raise ZeroDivisionError
        return 12 // values

    call = PandasCall(divided, LongType())
    assert call(pd.Series(COMPUTABLE), pd.Series(VALUES)).tolist() == WANTED
    assert call(pd.Series([True] * 2), pd.Series([3, 4])).tolist() == [[4], [3]]
    assert PandasCall(short, LongType())(pd.Series([True] * 2), pd.Series([1, 2])).tolist() == [None, None]


@pytest.mark.parametrize("bad", [0, 1, 499, 999])
def test_halving_calls_a_function_few_times(bad: int) -> None:
    calls = []

    def failing(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        if bad in values.to_pylist():
            raise ValueError
        return values

    found = ArrowCall(failing, LongType())(pa.array([True] * 1000), pa.array(range(1000)))
    assert [position for position, value in enumerate(found.to_pylist()) if value is None] == [bad]
    assert len(calls) <= 2 * 10 + 1
