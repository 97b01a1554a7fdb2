"""Spark SQL expressions evaluated by DuckDB over Arrow tables, row for row. What has no exact equal is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.evaluation import duckdb_tables
from windowpane.sql import Translated, translate_expression
from windowpane.sql.signatures import NULL as NULL_TYPE
from windowpane.sql.types import from_arrow, to_arrow

ROW = "_row"
"""The number of a row: results come back in its order."""


class Expressions:
    """A separate connection to DuckDB."""

    def __init__(self) -> None:
        self._duckdb = duckdb_tables.connect()
        self._translated: dict[tuple[str, pa.Schema], Translated] = {}

    def register(self, name: str, table: pa.Table) -> None:
        """Make a static table known under `name`."""
        self._duckdb.register(name, table)

    def translate(self, text: str, schema: pa.Schema) -> Translated:
        """Text over columns of `schema` in DuckDB's spelling; SqlError UNSUPPORTED_IN_HARNESS where there is none."""
        if (text, schema) not in self._translated:
            self._translated[text, schema] = translate_expression(text, spark_types(schema))
        return self._translated[text, schema]

    def select(self, table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
        """Each named expression over the rows of `table`. An expression that fails on a row is NULL there."""
        return self.evaluate(table, columns)[0]

    def evaluate(self, table: pa.Table, columns: Mapping[str, str]) -> tuple[pa.Table, pa.Array | None]:
        """The same, and the rows on which an expression has failed; None where there are none."""
        present = set(table.column_names)
        found = {name: self.translate(text, table.schema) for name, text in columns.items() if text not in present}
        items = {name: duckdb_tables.Item(each.text, _arrow(each), each.fails) for name, each in found.items()}
        values, failed = duckdb_tables.evaluate(self._duckdb, items, table) if items else ({}, {})
        computed = {name: table.column(text) if text in present else values[name] for name, text in columns.items()}
        return pa.table(computed), reduce(pc.or_, failed.values()) if failed else None

    def under(self, text: str, conditions: Sequence[str], schema: pa.Schema) -> str:
        """The text of an expression that is evaluated only where `conditions` hold."""
        if text in schema.names or not conditions or not self.translate(text, schema).fails:
            return text
        held = " AND ".join(f"({condition})" for condition in conditions)
        return f"CASE WHEN {held} THEN {text} END"

    def query(self, sql: str, table: pa.Table) -> pa.Table:
        """A DuckDB query over `input`, which is `table`."""
        return duckdb_tables.query(self._duckdb, sql, table)


def _arrow(found: Translated) -> pa.DataType:
    return pa.string() if found.type == NULL_TYPE else to_arrow(found.type)


def spark_types(schema: pa.Schema) -> dict[str, str | None]:
    """What Spark calls the types of the columns; None where it has no name for one."""
    return {field.name: from_arrow(field.type) for field in schema}
