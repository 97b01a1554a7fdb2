"""Grouping against dictionaries of Python values."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.core.groups import Groups, group_rows, stable_order

KEY_TYPES = {
    "int8": (pa.int8(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "narrow": (pa.int64(), st.integers(10**15, 10**15 + 3)),
    "float32": (pa.float32(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, -math.inf])),
    "float64": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, math.inf])),
    "decimal": (pa.decimal128(20, 2), st.sampled_from([Decimal("1.10"), Decimal("-0.01"), Decimal(10**17)])),
    "string": (pa.string(), st.sampled_from(["", "a", "ü", "a\0"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\xff", b"a"])),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.sampled_from([dt.date(1969, 12, 31), dt.date(2020, 1, 1)])),
    "timestamp": (pa.timestamp("us", "UTC"), st.sampled_from([dt.datetime(1969, 1, 1, tzinfo=dt.UTC)])),
    "null": (pa.null(), st.none()),
}


def plain(value: object) -> object:
    """A value that is equal where the keys are one group."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@st.composite
def key_columns(draw: st.DrawFn) -> list[pa.Array]:
    names = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    length = draw(st.integers(0, 30))
    columns = []
    for name in names:
        type_, values = KEY_TYPES[name]
        drawn = draw(st.lists(st.none() | values, min_size=length + 2, max_size=length + 2))
        columns.append(pa.array(drawn, type_).slice(1, length))
    return columns


@given(key_columns())
def test_groups_are_those_of_a_dictionary_in_order_of_first_appearance(columns: list[pa.Array]) -> None:
    length = len(columns[0])
    rows = list(zip(*(map(plain, column.to_pylist()) for column in columns), strict=True))
    numbers: dict[tuple[object, ...], int] = {}
    expected = [numbers.setdefault(row, len(numbers)) for row in rows]
    groups, first = group_rows(columns, length)
    assert groups.ids.tolist() == expected
    assert groups.ids.dtype == np.int64
    assert groups.count == len(numbers)
    assert first.tolist() == [rows.index(row) for row in numbers]


def test_nans_of_any_payload_are_one_group() -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0BAD))[0]
    groups, _ = group_rows([pa.array(np.array([math.nan, odd, -math.nan]))], 3)
    assert groups.count == 1


def test_without_keys_all_rows_are_one_group() -> None:
    groups, first = group_rows([], 3)
    assert (groups.ids.tolist(), groups.count, first.tolist()) == ([0, 0, 0], 1, [0])
    assert group_rows([], 0)[0].count == 0


def test_many_wide_keys_do_not_overflow_the_combined_code() -> None:
    wide = np.random.default_rng(7).integers(-(2**62), 2**62, (6, 500))
    twice = [pa.array(np.concatenate([column, column])) for column in wide]
    groups, first = group_rows(twice, 1000)
    assert groups.count == 500
    assert groups.ids.tolist() == [*range(500), *range(500)]
    assert first.tolist() == list(range(500))


def test_a_struct_key_tells_a_null_struct_from_one_with_a_null_in_it() -> None:
    key = pa.array([{"a": 1}, None, {"a": None}, {"a": 1}])
    assert group_rows([key], 4)[0].ids.tolist() == [0, 1, 2, 0]


def test_a_dictionary_key_is_grouped_by_its_values() -> None:
    key = pa.array(["x", "y", None, "x"]).dictionary_encode()
    assert group_rows([key], 4)[0].ids.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("count", [1, 5, 70_000, 2**33])
def test_stable_order_is_a_stable_sort(count: int) -> None:
    ids = np.random.default_rng(3).integers(0, count, 2000)
    assert stable_order(ids, count).tolist() == np.argsort(ids, kind="stable").tolist()


def test_offsets_cut_the_order_into_groups() -> None:
    groups = Groups(np.array([2, 0, 2, 0]), 4)
    cuts = [groups.order[low:high].tolist() for low, high in zip(groups.offsets, groups.offsets[1:], strict=False)]
    assert cuts == [[1, 3], [], [0, 2], []]
    assert groups.take(np.array([0])).sizes.tolist() == [0, 0, 1, 0]
