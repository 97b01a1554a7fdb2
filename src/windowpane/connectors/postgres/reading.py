"""Reads rows back from a table that the PostgreSQL sink has written, in the form in which they were sent."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql

from windowpane.connectors.postgres.columns import PostgresColumn
from windowpane.connectors.postgres.statements import BATCH
from windowpane.connectors.read_back import ORDER

_MICROS = "CASE WHEN isfinite({0}) THEN (extract(epoch FROM {0}) * 1000000)::bigint END"
_SENT = {
    "timestamptz": _MICROS,
    "timestamp": _MICROS,
    "date": "CASE WHEN isfinite({0}) THEN {0} - date '1970-01-01' END",
    "bytea": "upper(encode({0}, 'hex'))",
    "jsonb": "{0}::text",
}
"""By PostgreSQL's type, the expression that gives a value as it was sent."""


def read_rows(
    connection: psycopg.Connection[tuple[object, ...]],
    table: sql.Identifier,
    columns: Sequence[PostgresColumn],
    sent: pa.Schema,
) -> pa.Table:
    """All rows of a table, with the columns of `sent`, which are named c0, c1, …, and ORDER."""
    values = [sql.SQL(_SENT.get(column.type, "{0}")).format(sql.Identifier(column.name)) for column in columns]
    named = sql.SQL(", ").join([*values, sql.Identifier(BATCH)])
    text = io.BytesIO()
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)").format(named, table)
    with connection.cursor().copy(query) as copy:
        for data in copy:
            text.write(data)
    text.seek(0)
    types = {field.name: field.type for field in sent} | {ORDER: pa.int64()}
    if not text.getbuffer().nbytes:
        return pa.schema(list(types.items())).empty_table()
    # PostgreSQL quotes every value but NULL.
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
        true_values=["t"], false_values=["f"],
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(text, pyarrow.csv.ReadOptions(column_names=list(types)), parse, convert)


def read_records(connection: psycopg.Connection[tuple[object, ...]], table: sql.Identifier, column: str) -> list[str]:
    """The texts of a column of JSON records."""
    query = sql.SQL("SELECT {}::text FROM {}").format(sql.Identifier(column), table)
    return [str(row[0]) for row in connection.execute(query)]


def canonical_json(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows with the JSON texts of some columns written alike: PostgreSQL orders keys and spaces in its own way."""
    for name in columns:
        texts = [None if text is None else _canonical(text) for text in rows.column(name).to_pylist()]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return rows


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
