"""Spark SQL expressions evaluated by DuckDB over Arrow tables, row for row. What has no exact equal is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from windowpane.plan import duckdb_tables
from windowpane.sql import to_duckdb
from windowpane.sql.types import from_arrow

ROW = "_row"
"""The number of a row: results come back in its order."""


class Expressions:
    """A connection to DuckDB of its own."""

    def __init__(self) -> None:
        self._duckdb = duckdb_tables.connect()
        self._translated: dict[tuple[str, pa.Schema | None], str] = {}

    def register(self, name: str, table: pa.Table) -> None:
        """Make a static table known under `name`."""
        self._duckdb.register(name, table)

    def translate(self, text: str, schema: pa.Schema | None = None) -> str:
        """Text over columns of `schema` in DuckDB's spelling; SqlError UNSUPPORTED_IN_HARNESS where there is none."""
        if (text, schema) not in self._translated:
            self._translated[text, schema] = to_duckdb(text, spark_types(schema) if schema is not None else None)
        return self._translated[text, schema]

    def select(self, table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
        """Each named expression over the rows of `table`. An expression that fails on a row is NULL there."""
        present = set(table.column_names)
        items = {name: self.translate(text, table.schema) for name, text in columns.items() if text not in present}
        computed = duckdb_tables.compute(self._duckdb, items, table) if items else table
        return pa.table(
            {name: table.column(text) if text in present else computed.column(name) for name, text in columns.items()}
        )

    def query(self, sql: str, table: pa.Table) -> pa.Table:
        """A DuckDB query over `input`, which is `table`."""
        return duckdb_tables.query(self._duckdb, sql, table)


def spark_types(schema: pa.Schema) -> dict[str, str | None]:
    """What Spark calls the types of the columns; None where it has no name for one."""
    return {field.name: from_arrow(field.type) for field in schema}
