"""Several queries over the rows of one input, and joins whose sides are such queries: where rows part and meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import Frame, Rows
from windowpane.core.operators.base import Operator
from windowpane.core.rows import plain, select
from windowpane.core.state import Header

LEFT, RIGHT = "left", "right"
"""The inputs of `Meeting`."""


class Handover(Operator):
    """Rows of the input, which others take. Each counts once, however many queries take it."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        self.counts.aggregated += frame.batch.num_rows
        return [frame]


class Parting(Operator):
    """The rows of some streams, with the columns of one query under its own names.

    `column`: has the number of each row's stream. `names`: the columns of the query, each with its name in the input;
    all other columns of the input that begin with `prefix` are those of other queries.
    """

    def __init__(self, column: str, streams: Iterable[int], names: Mapping[str, str], prefix: str) -> None:
        super().__init__()
        self._column, self._streams, self._names, self._prefix = column, tuple(streams), dict(names), prefix

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        fields = [given.field(name) for name in self._beside(given)]
        return pa.schema([*fields, *(given.field(column).with_name(name) for name, column in self._names.items())])

    def on_rows(self, frame: Rows) -> list[Frame]:
        batch = frame.batch
        own = select(batch, np.isin(batch.column(self._column).to_numpy(zero_copy_only=False), self._streams))
        if not own.num_rows:
            return []
        columns = {name: own.column(name) for name in self._beside(own.schema)}
        columns |= {name: own.column(column) for name, column in self._names.items()}
        return [Rows(pa.RecordBatch.from_pydict(columns))]

    def _beside(self, given: pa.Schema) -> list[str]:
        return [name for name in given.names if not name.startswith(self._prefix) and name != self._column]


class Passing(Operator):
    """Rows on their way to a later step."""


@dataclass(frozen=True)
class _Scalars:
    arrivals: int


class Meeting(Operator):
    """Rows of both sides of a join in, rows of one schema out, numbered as they come.

    The rows of results have numbers of their own shards, and a row that is on both sides has one number. Joins tell
    rows apart by their numbers.
    """

    inputs = (LEFT, RIGHT)
    moves_time = True
    shard_scalars = ("arrivals",)

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        super().__init__()
        self._schema = _common(_decoded(left), _decoded(right))
        self._arrivals = 0

    def schema_of(self, given: Mapping[str, pa.Schema]) -> pa.Schema:
        return self._schema

    def on_rows(self, frame: Rows) -> list[Frame]:
        batch = plain(frame.batch)
        count, columns = batch.num_rows, dict[str, pa.Array]()
        for field in self._schema:
            known = field.name in batch.schema.names
            column = batch.column(field.name) if known else pa.nulls(count, field.type)
            columns[field.name] = column if column.type == field.type else column.cast(field.type)
        columns[c.ARRIVAL] = pa.array(self._arrivals + np.arange(count, dtype=np.int64))
        self._arrivals += count
        return [Rows(pa.RecordBatch.from_pydict(columns, schema=self._schema))] if count else []

    def header(self) -> Header:
        return Header.of(_Scalars(self._arrivals))

    def load_header(self, header: Header) -> None:
        self._arrivals = header.read(_Scalars).arrivals


def _common(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The columns of both. Of equal names, those of the right side, which may be those of a source."""
    own = [field for field in left if field.name not in right.names]
    return pa.schema([pa.field(field.name, field.type) for field in (*right, *own)])


def _decoded(schema: pa.Schema) -> pa.Schema:
    decoded = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema([pa.field(name, kind) for name, kind in zip(schema.names, decoded, strict=True)])
