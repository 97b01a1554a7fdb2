"""Users' functions in DuckDB, for the harness: each call by its name and the types of its arguments.

A function gives a list of one value, and NULL for a row on which it raises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from windowpane.core.user_functions import UserFunction, find

MARK = '"user '
"""In a query that calls a user's function."""
_CALLED = re.compile(r'"user (?P<name>\w+)\((?P<types>[^")]*(?:\([^")]*\)[^")]*)*)\) (?P<result>[^"]+)"\(')
_INSTANT = "TIMESTAMP"


def make_known(connection: duckdb.DuckDBPyConnection, sql: str, known: dict[str, UserFunction]) -> None:
    """Create the functions that a query calls. `known`: those that the database has already."""
    for match in _CALLED.finditer(sql):
        whole, function = match[0][1:-2], find(match["name"])
        if function is None or known.get(whole) is function:
            continue
        if whole in known:
            connection.remove_function(whole)
        types = [pair.partition(":") for pair in match["types"].split(";") if pair]
        call = _Call(function, [spark for spark, _, _ in types])
        connection.create_function(
            whole, call, [own for _, _, own in types], f"{match['result']}[]", type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip
        known[whole] = function


class _Call:
    def __init__(self, function: UserFunction, types: Sequence[str]) -> None:
        self._function, self._types = function, types
        self.__name__ = function.name

    def __call__(self, *columns: pa.Array | pa.ChunkedArray) -> pa.Array:
        whole = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in columns]
        found = self._of_columns(whole) if self._function.of_columns else self._of_rows(whole)
        kind = found.type.value_type
        return found.cast(pa.list_(pa.timestamp("us"))) if pa.types.is_timestamp(kind) and kind.tz else found

    def _of_rows(self, columns: Sequence[pa.Array]) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([self._value(row) for row in rows], pa.list_(self._function.arrow_type))

    def _value(self, row: tuple[Any, ...]) -> list[Any] | None:
        try:
            value = self._function.call(*row)
            pa.array([value], self._function.arrow_type)
        except Exception:  # noqa: BLE001  # a user's code may raise anything
            return None
        return [value]

    def _of_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The rows on which it raises are found by halving."""
        count, kind = len(columns[0]), self._function.arrow_type
        zoned = [
            column.cast(pa.timestamp("us", "UTC")) if spark == _INSTANT else column
            for spark, column in zip(self._types, columns, strict=True)
        ]
        try:
            given = self._function.call(*zoned)
            values = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
            if len(values) != count:
                raise ValueError(f"{len(values)} values for {count} rows")  # noqa: TRY301
            return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), values.cast(kind))
        except Exception:  # noqa: BLE001
            if count <= 1:
                return pa.nulls(count, pa.list_(kind))
        parts = [self._of_columns([column[: count // 2] for column in columns])]
        parts.append(self._of_columns([column[count // 2 :] for column in columns]))
        return pa.concat_arrays(parts)
