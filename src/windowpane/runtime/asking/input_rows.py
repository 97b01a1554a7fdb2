"""Rows of a stream through the expressions of a query, computed by DuckDB: event time, WHERE, keys and arguments."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.errors import ConfigError, SqlError, nearest
from windowpane.plan.pipeline import source_schema
from windowpane.runtime.asking.asked import Asked, now_us
from windowpane.sql.query import Column
from windowpane.testing.decode import Decoded, arrow_schema, decode
from windowpane.testing.expressions import Expressions
from windowpane.testing.inputs import InputEvaluator, Pushed


def chosen_stream(asked: Asked, stream: str | None) -> str:
    """The stream that rows are of; ConfigError if the user has to say."""
    names = list(dict.fromkeys(asked.plan.stages.input.streams))
    if stream is None and len(names) == 1:
        return names[0]
    if stream is None or stream not in names:
        what = "reads several streams" if stream is None else f"reads no stream `{stream}`"
        raise ConfigError(
            "UNKNOWN_STREAM", f"transform `{asked.name}` {what}", f"--stream is one of: {nearest(stream or '', names)}"
        )
    return stream


class InputRows:
    """Evaluates rows of one stream. ConfigError if only Spark can."""

    def __init__(self, asked: Asked, stream: str, clock_us: int | None = None) -> None:
        """`clock_us`: the processing time of the rows, if it is known."""
        read = asked.plan.stages.input
        if read.relation.tables:
            names = ", ".join(f"`{join.table}`" for join in read.relation.tables)
            raise ConfigError(
                "NEEDS_SPARK", f"transform `{asked.name}` joins the static table {names}, which only Spark reads",
                "ask about a transform without one, or test the query: windowpane test",
            )  # fmt: skip
        self._stream, self._columns = stream, _columns(asked, stream)
        self.schema = arrow_schema(self._columns)
        self.evaluator = InputEvaluator(read, asked.plan.types, Expressions())
        last_us = asked.last.clock_us if clock_us is None and asked.last and not asked.running else now_us()
        self.clock_us = last_us if clock_us is None else clock_us

    def of_dicts(self, rows: Sequence[Mapping[str, Any]], first: int = 0) -> pa.RecordBatch:
        """`first`: the arrival number of the first row."""
        return self._evaluated(decode([_with_times(row, self.schema) for row in rows], self._columns), "0", first)

    def of_table(self, table: pa.Table, partition: str, first: int) -> pa.RecordBatch:
        """Columns of `schema`, and CORRUPT. Original events are left out."""
        corrupt = table.column(c.CORRUPT)
        is_bad = pc.any(corrupt.is_valid()).as_py()
        problems: list[str | None] = corrupt.to_pylist() if is_bad else [None] * table.num_rows
        decoded = Decoded(table.drop_columns([c.CORRUPT]), pa.nulls(table.num_rows, pa.string()), problems)
        return self._evaluated(decoded, partition, first)

    def _evaluated(self, decoded: Decoded, partition: str, first: int) -> pa.RecordBatch:
        try:
            return self.evaluator.rows(
                Pushed(self._stream, f"{self._stream}/{partition}", decoded, self.clock_us, first)
            )
        except SqlError as error:
            if error.code != "UNSUPPORTED_IN_HARNESS":
                raise
            hint = "test it on Spark: windowpane test --spark"
            raise ConfigError("NEEDS_SPARK", f"only Spark can compute the query: {error.message}", hint) from None


def _with_times(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """JSON has no times: texts in columns of times become such. Others are left, and become error rows."""
    times = {field.name.lower() for field in schema if pa.types.is_temporal(field.type)}
    found = dict(row)
    for name, value in row.items():
        if name.lower() in times and isinstance(value, str):
            with contextlib.suppress(ValueError):
                found[name] = dt.datetime.fromisoformat(value)
    return found


def _columns(asked: Asked, stream: str) -> tuple[Column, ...]:
    schema = source_schema(asked.config.streams[stream])
    if schema is None:
        raise ConfigError(
            "MISSING_KEY", f"stream `{stream}` declares no schema, so its rows cannot be read without Spark",
            "declare it: windowpane schema prints one", key=f"streams.{stream}.schema",
        )  # fmt: skip
    return schema
