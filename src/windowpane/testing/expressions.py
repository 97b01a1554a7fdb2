"""DuckDB over Arrow tables for the harness: queries, static tables, and projections compiled once per schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import duckdb
import pyarrow as pa

from windowpane.evaluation import duckdb_tables
from windowpane.evaluation.projection import Projection
from windowpane.plan.evaluation import Compiler
from windowpane.plan.node_fields import InputColumn
from windowpane.sql.types import from_arrow

ROW = "_row"
"""The number of a row: results come back in its order."""


class Expressions:
    """A separate connection to DuckDB, made when a query first needs one."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[tuple[InputColumn, ...], str | None, pa.Schema], Projection] = {}

    @cached_property
    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        return duckdb_tables.connect()

    def register(self, name: str, table: pa.Table) -> None:
        """Make a static table known under `name`."""
        self._duckdb.register(name, table)

    def projection(self, columns: Sequence[InputColumn], where: str | None, schema: pa.Schema) -> Projection:
        """SqlError UNSUPPORTED_IN_HARNESS where an expression could have another value in Spark."""
        key = (tuple(columns), where, schema)
        if key not in self._compiled:
            self._compiled[key] = compiler(schema).projection(columns, where=where)
        return self._compiled[key]

    def query(self, sql: str, table: pa.Table) -> pa.Table:
        """A DuckDB query over `input`, which is `table`."""
        return duckdb_tables.query(self._duckdb, sql, table)


def compiler(schema: pa.Schema) -> Compiler:
    """Of expressions over columns of `schema`."""
    return Compiler(spark_types(schema))


def spark_types(schema: pa.Schema) -> dict[str, str | None]:
    """What Spark calls the types of the columns; None where it has no name for one."""
    return {field.name: from_arrow(field.type) for field in schema}
