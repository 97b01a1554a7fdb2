"""Dates and instants of every year as text, as Spark writes them to JSON. Python has only the years 1 to 9999."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DAY_US = 86_400_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself after this time."""
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # a calendar, not an instant
_LAST_YEAR = 9999


def date_text(days: int) -> str:
    """A date by its number of days since 1970.

    >>> date_text(0), date_text(2_932_897), date_text(-719_529)
    ('1970-01-01', '+10000-01-01', '-0001-12-31')
    """
    cycles, rest = divmod(days, _CYCLE_DAYS)
    within = _EPOCH + dt.timedelta(rest)
    year = within.year + _CYCLE_YEARS * cycles
    sign = "-" if year < 0 else "+" if year > _LAST_YEAR else ""
    return f"{sign}{abs(year):04}-{within:%m-%d}"


def instant_text(us: int) -> str:
    """An instant in UTC with microseconds.

    >>> instant_text(-1)
    '1969-12-31T23:59:59.999999Z'
    """
    days, rest = divmod(us, _DAY_US)
    return f"{date_text(days)}T{_EPOCH + dt.timedelta(microseconds=rest):%H:%M:%S.%f}Z"


def with_time_texts(values: pa.Array) -> pa.Array:
    """The values, with dates and instants as text, also inside of structs and lists."""
    if pa.types.is_struct(values.type):
        names = [values.type.field(number).name for number in range(values.type.num_fields)]
        parts = [with_time_texts(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, names, mask=values.is_null()) if names else values
    if pa.types.is_list(values.type):
        items = with_time_texts(values.flatten())
        return pa.ListArray.from_arrays(_offsets(values), items, mask=values.is_null())
    if pa.types.is_date(values.type):
        return _texts(values.cast(pa.int32()), date_text)
    if pa.types.is_timestamp(values.type):
        return _texts(values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()), instant_text)
    return values


def _texts(numbers: pa.Array, write: Callable[[int], str]) -> pa.Array:
    return pa.array([None if number is None else write(number) for number in numbers.to_pylist()], pa.string())


def _offsets(lists: pa.Array) -> pa.Array:
    """Of the flattened items, from which those of NULL lists are gone."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
