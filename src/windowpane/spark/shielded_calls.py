"""Users' functions as the workers call them: NULL in place of what raises. Imports nothing else of windowpane.

Each call takes, before the user's arguments, whether Spark could compute them, and gives a list of one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType


@dataclass(frozen=True)
class RowCall:
    """A function of one row."""

    function: Callable[..., Any]
    kind: DataType

    def __call__(self, computable: object, *arguments: Any, **named: Any) -> list[Any] | None:
        if not computable:
            return None
        try:
            value = self.function(*arguments, **named)
            if self.kind.needConversion():
                self.kind.toInternal(value)
        except Exception:  # noqa: BLE001  # a user's code may raise anything
            return None
        return [value]


@dataclass(frozen=True)
class OfBatches:
    """A function from an iterator of batches to one, called for each batch: then the rows that raise can be found."""

    function: Callable[..., Any]

    def __call__(self, *columns: Any) -> Any:
        pieces = list(self.function(iter([columns[0] if len(columns) == 1 else columns])))
        if all(isinstance(piece, pa.Array) for piece in pieces):
            return pa.concat_arrays(pieces)
        import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415  # where a pandas UDF runs, pandas is installed

        return pd.concat(pieces, ignore_index=True)


@dataclass(frozen=True)
class ArrowCall:
    """A function of Arrow columns. The rows on which it raises are found by halving."""

    function: Callable[..., Any]
    kind: DataType

    def __call__(self, computable: pa.Array, *arguments: pa.Array, **named: pa.Array) -> pa.Array:
        chosen = computable.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
        names, columns = list(named), [*arguments, *named.values()]
        if chosen.all():
            return self._halved(columns, names, len(chosen))
        mask = pa.array(chosen)
        found = self._halved([column.filter(mask) for column in columns], names, int(chosen.sum()))
        return found.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))

    def _halved(self, columns: Sequence[pa.Array], names: list[str], count: int) -> pa.Array:
        kind = to_arrow_type(self.kind, timezone="UTC")
        if not count:
            return pa.nulls(0, pa.list_(kind))
        try:
            return self._listed(columns, names, count, kind)
        except Exception:  # noqa: BLE001
            if count == 1:
                return pa.nulls(1, pa.list_(kind))
        middle = count // 2
        left = self._halved([column[:middle] for column in columns], names, middle)
        right = self._halved([column[middle:] for column in columns], names, count - middle)
        return pa.concat_arrays([left, right])

    def _listed(self, columns: Sequence[pa.Array], names: list[str], count: int, kind: pa.DataType) -> pa.Array:
        first = len(columns) - len(names)
        given = self.function(*columns[:first], **dict(zip(names, columns[first:], strict=True)))
        values = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if len(values) != count:
            raise ValueError(f"{len(values)} values for {count} rows")
        return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), values.cast(kind))


@dataclass(frozen=True)
class PandasCall:
    """A function of pandas columns. The rows on which it raises are found by halving."""

    function: Callable[..., Any]
    kind: DataType

    def __call__(self, computable: Any, *arguments: Any, **named: Any) -> Any:
        import pandas as pd  # noqa: PLC0415  # where a pandas UDF runs, pandas is installed

        chosen = computable.eq(other=True).to_numpy(dtype=bool)
        names, columns = list(named), [*arguments, *named.values()]
        found = self._halved([column[chosen].reset_index(drop=True) for column in columns], names, int(chosen.sum()))
        values = np.full(len(chosen), None, dtype=object)
        values[np.flatnonzero(chosen)] = _objects(found)
        return pd.Series(values)

    def _halved(self, columns: Sequence[Any], names: list[str], count: int) -> list[list[Any] | None]:
        if not count:
            return []
        try:
            return self._listed(columns, names, count)
        except Exception:  # noqa: BLE001
            if count == 1:
                return [None]
        middle = count // 2
        left = [column.iloc[:middle] for column in columns]
        right = [column.iloc[middle:].reset_index(drop=True) for column in columns]
        return self._halved(left, names, middle) + self._halved(right, names, count - middle)

    def _listed(self, columns: Sequence[Any], names: list[str], count: int) -> list[list[Any] | None]:
        first = len(columns) - len(names)
        given = self.function(*columns[:first], **dict(zip(names, columns[first:], strict=True)))
        if len(given) != count:
            raise ValueError(f"{len(given)} values for {count} rows")
        if hasattr(given, "to_dict") and hasattr(given, "columns"):
            return [[record] for record in given.to_dict("records")]
        pa.Array.from_pandas(given, type=to_arrow_type(self.kind, timezone="UTC"))
        return [[None if null else value] for value, null in zip(given, given.isna(), strict=True)]


def _objects(found: list[Any]) -> Any:
    """A column of lists; numpy would make a table of them."""
    column = np.empty(len(found), dtype=object)
    for position, value in enumerate(found):
        column[position] = value
    return column
