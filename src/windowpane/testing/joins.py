"""Joins with static tables, without Spark. A stream row without a partner has been read, so it stays, unmatched."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.errors import InternalError
from windowpane.evaluation.duckdb_tables import quoted
from windowpane.sql import translate_expression
from windowpane.sql.query import Relation, StaticJoin
from windowpane.sql.types import quoted as quoted_name
from windowpane.testing.expressions import Expressions, spark_types

_CLAUSE = re.compile(
    r"(?P<kind>(?:LEFT )?(?:(?:SEMI|ANTI|CROSS) )?JOIN) .*?(?: USING \(.*\)| ON (?P<on>.*))?", re.DOTALL
)
_MATCHED, _PLACE = "_matched", "_place"


@dataclass(frozen=True)
class TableJoin:
    """One join of a query's FROM, evaluated by DuckDB. The table is registered under its name."""

    relation: Relation
    join: StaticJoin
    expressions: Expressions
    keep: str
    """The column that says whether a row is kept: inner, semi and anti joins clear it instead of dropping the row."""

    def apply(self, rows: pa.Table) -> pa.Table:
        match = _CLAUSE.fullmatch(self.join.text)
        if match is None:
            raise InternalError("PLAN_SHAPE", f"the harness cannot read the join `{self.join.text}`")
        stream, kind = quoted(self.relation.alias or "input"), match["kind"]
        condition = self._condition(match["on"], stream, rows)
        if "SEMI" in kind or "ANTI" in kind:
            found = f"EXISTS (SELECT 1 FROM {quoted(self.join.table)} AS {quoted(self.join.alias)} WHERE {condition})"
            source, columns, kept = "", "", f"NOT {found}" if "ANTI" in kind else found
        else:
            table = f"(SELECT *, TRUE AS {_MATCHED} FROM {quoted(self.join.table)})"
            source = f" LEFT JOIN {table} AS {quoted(self.join.alias)} ON {condition}"
            columns, kept = self._columns(), "TRUE" if kind == "LEFT JOIN" else f"{_MATCHED} IS NOT NULL"
        alone = f"NOT ({kept})" if kind != "LEFT JOIN" and "ANTI" not in kind else "FALSE"
        hidden = [name for name in (self.keep, c.UNMATCHED) if name in rows.column_names]
        own = f"{stream}.* EXCLUDE ({', '.join([_PLACE, *hidden])})"
        if self.keep in hidden:
            before = f"coalesce({self.keep}, FALSE)"
            kept, alone = f"{before} AND {kept}", f"{before} AND {alone}"
        alone = f"{c.UNMATCHED} OR {alone}" if c.UNMATCHED in hidden else alone
        flags = f"{kept} AS {self.keep}, {alone} AS {c.UNMATCHED}"
        sql = f"SELECT {own}{columns}, {flags} FROM input AS {stream}{source} ORDER BY {stream}.{_PLACE}"
        return self.expressions.query(sql, rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64())))

    def _condition(self, on: str | None, stream: str, rows: pa.Table) -> str:
        if on is not None:
            return translate_expression(on, self._types(rows)).text
        table = quoted(self.join.alias)
        shared = [f"{stream}.{quoted(name)} = {table}.{quoted(name)}" for name in self.join.using_columns]
        return " AND ".join(shared) or "TRUE"

    def _types(self, rows: pa.Table) -> dict[str, str]:
        """The two sides as rows, and their columns by bare names."""
        stream = {name: kind for name, kind in spark_types(rows.schema).items() if kind is not None}
        table = {column.name: column.type for column in self.join.columns}
        sides = {self.relation.alias or "input": stream, self.join.alias: table}
        return {**table, **stream} | {
            alias: f"STRUCT<{','.join(f'{quoted_name(name)}:{kind}' for name, kind in columns.items())}>"
            for alias, columns in sides.items()
        }

    def _columns(self) -> str:
        names = {(alias, column): name for name, alias, column in self.relation.renamed}
        shared = {name.lower() for name in self.join.using_columns}
        alias = self.join.alias
        return "".join(
            f", {quoted(alias)}.{quoted(column.name)} AS {quoted(names.get((alias, column.name), column.name))}"
            for column in self.join.columns
            if column.name.lower() not in shared
        )
