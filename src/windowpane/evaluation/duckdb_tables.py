"""Expressions in DuckDB's SQL over Arrow tables. One database in memory for the process: to open one takes long.

A row on which an expression fails is found without stopping the others: a table is evaluated as it is first, and once
more with every expression under TRY where that has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.user_functions import UserFunction
from windowpane.evaluation import kernels, user_functions
from windowpane.evaluation.expressions import Computed

INPUT = "input"
"""The table that a query reads."""
_NAIVE = pa.timestamp("us")
_known_functions: dict[str, UserFunction] = {}
"""The users' functions that the database has."""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(":memory:", config={"threads": 1})
    # A subexpression that several columns share would be evaluated outside of their TRY; `a + 5 > 3` would become
    # `a > -2`, which does not overflow.
    database.execute("SET disabled_optimizers = 'common_subexpressions,common_subplan,expression_rewriter'")
    kernels.register(database)
    return database


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of its own, in UTC: what is registered here is not seen by others."""
    connection = _database().cursor()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def query(connection: duckdb.DuckDBPyConnection, sql: str, table: pa.Table) -> pa.Table:
    """A query over INPUT, which is `table`."""
    if user_functions.MARK in sql:
        user_functions.make_known(_database(), sql, _known_functions)
    connection.register(INPUT, table)
    try:
        result: pa.Table = connection.sql(sql).to_arrow_table()
    finally:
        connection.unregister(INPUT)
    return result


def evaluate(
    connection: duckdb.DuckDBPyConnection, items: Mapping[str, Computed], table: pa.Table
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Each named expression over the rows of `table`, and for those that fail on a row, where (the value is NULL)."""
    rows = _in_utc(table)
    with kernels.refusing():
        try:
            found = _selected(connection, {name: item.text for name, item in items.items()}, rows)
        except duckdb.Error:
            return _tried(connection, items, rows)
    return {name: _typed(found.column(name), item.type) for name, item in items.items()}, {}


def _tried(
    connection: duckdb.DuckDBPyConnection, items: Mapping[str, Computed], rows: pa.Table
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """A value in an envelope: no envelope means that the expression has failed."""
    found = _selected(connection, {name: f"TRY({{'v': {item.text}}})" for name, item in items.items()}, rows)
    values, failed = {}, {}
    for name, item in items.items():
        column = found.column(name).combine_chunks()
        values[name], failed[name] = _typed(pc.struct_field(column, "v"), item.type), column.is_null()
    return values, {name: mask for name, mask in failed.items() if pc.any(mask).as_py()}


def _selected(connection: duckdb.DuckDBPyConnection, texts: Mapping[str, str], rows: pa.Table) -> pa.Table:
    listed = ", ".join(f"{text} AS {quoted(name)}" for name, text in texts.items())
    return query(connection, f"SELECT {listed} FROM {INPUT}", rows)


def _in_utc(table: pa.Table) -> pa.Table:
    """Instants as their times in UTC, which DuckDB computes with faster, and by no time zone."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            table = table.set_column(index, field.name, table.column(index).cast(_NAIVE))
    return table


def _typed(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if whole.type == kind else whole.cast(kind)


def quoted(name: str) -> str:
    """A name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'
