"""Expressions in DuckDB's SQL over Arrow tables. One database in memory for the process: to open one takes long."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import duckdb
import pyarrow as pa

INPUT = "input"
"""The table that a query reads."""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of its own, in UTC: what is registered here is not seen by others."""
    connection = _database().cursor()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def query(connection: duckdb.DuckDBPyConnection, sql: str, table: pa.Table) -> pa.Table:
    """A query over INPUT, which is `table`."""
    connection.register(INPUT, table)
    try:
        result: pa.Table = connection.sql(sql).to_arrow_table()
    finally:
        connection.unregister(INPUT)
    return result


def compute(connection: duckdb.DuckDBPyConnection, items: Mapping[str, str], table: pa.Table) -> pa.Table:
    """Each named expression over the rows of `table`. One that fails on a row is NULL there."""
    texts = ", ".join(f"TRY({text}) AS {quoted(name)}" for name, text in items.items())
    return query(connection, f"SELECT {texts} FROM {INPUT}", table)


def quoted(name: str) -> str:
    """A name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'
