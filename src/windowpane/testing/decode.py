"""Rows as users write them (dicts, Arrow tables) to columns of the stream's schema. What does not fit is a bad row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from windowpane.errors import ConfigError
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow as to_arrow_type


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema, the original rows beside them, and for each bad row what is wrong with it."""

    table: pa.Table
    events: pa.Array
    problems: list[str | None]
    stamps: pa.Array | None = None
    """When the source recorded each row; None if it does not say so."""

    def slice(self, start: int, count: int) -> Decoded:
        """Some of the rows."""
        stamps = None if self.stamps is None else self.stamps.slice(start, count)
        events, problems = self.events.slice(start, count), self.problems[start : start + count]
        return Decoded(self.table.slice(start, count), events, problems, stamps)


RowsLike: TypeAlias = Sequence[Mapping[str, object]] | pa.Table | pa.RecordBatch | Decoded


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The stream's schema in Arrow."""
    return pa.schema([pa.field(column.name, _arrow_type(column)) for column in columns])


def _arrow_type(column: Column) -> pa.DataType:
    kind = to_arrow_type(column.type)
    if kind is None:
        raise ConfigError(
            "UNSUPPORTED_IN_HARNESS", f"column `{column.name}` is {column.type}, which the harness does not support"
        )
    return kind


def decode(rows: RowsLike, columns: Sequence[Column]) -> Decoded:
    """Read rows by the schema: absent columns are NULL, unknown ones are kept in the original event only."""
    if isinstance(rows, Decoded):
        return rows
    schema = arrow_schema(columns)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _decode_table(rows, schema)
    by_name = {field.name.lower(): field.name for field in schema}
    known = [{by_name[key.lower()]: value for key, value in row.items() if key.lower() in by_name} for row in rows]
    problems: list[str | None] = [None] * len(known)
    arrays = [_decode_column([row.get(field.name) for row in known], field, problems) for field in schema]
    events = pa.array([json.dumps(dict(row), default=str) for row in rows], pa.string())
    return Decoded(pa.Table.from_arrays(arrays, schema=schema), events, problems)


def _decode_column(values: list[object], field: pa.Field, problems: list[str | None]) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([_decode_value(value, field, row, problems) for row, value in enumerate(values)], field.type)


def _decode_value(value: object, field: pa.Field, row: int, problems: list[str | None]) -> object:
    try:
        return pa.scalar(value, field.type).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        problems[row] = problems[row] or f"column `{field.name}` cannot hold {value!r}"
        return None


def _decode_table(rows: pa.Table, schema: pa.Schema) -> Decoded:
    """An Arrow table must have castable columns; its rows are their own events."""
    arrays = []
    for field in schema:
        index = rows.schema.get_field_index(field.name)
        arrays.append(pa.nulls(rows.num_rows, field.type) if index < 0 else rows.column(index).cast(field.type))
    events = pa.array([json.dumps(row, default=str) for row in _listed(rows)], pa.string())
    return Decoded(pa.Table.from_arrays(arrays, schema=schema), events, [None] * rows.num_rows)


def _listed(rows: pa.Table) -> list[dict[str, object]]:
    """Rows as dicts. Python has no datetimes beyond the years 1 to 9999, so those are texts."""
    try:
        listed: list[dict[str, object]] = rows.to_pylist()
    except (OverflowError, ValueError):
        texts = [field.with_type(pa.string()) if pa.types.is_temporal(field.type) else field for field in rows.schema]
        listed = rows.cast(pa.schema(texts)).to_pylist()
    return listed
