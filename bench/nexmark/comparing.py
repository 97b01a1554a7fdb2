"""Results of the engines row by row against DuckDB's over the same files: as multisets, both ways."""

from __future__ import annotations

from pathlib import Path

import duckdb

from bench.nexmark.datasets import Dataset
from bench.nexmark.generator import COLUMNS, Stream
from bench.nexmark.queries import Query

TYPES = {"name": "VARCHAR", "window_start": "TIMESTAMP", "window_end": "TIMESTAMP"}
SLACK_US = 1_800_000_000
"""Windows of the flushing row, an hour after the others, are left out: not every engine has closed them."""


class Mismatch(Exception):  # noqa: N818  # what it is called in a report
    """An engine's rows are not the expected ones."""


def connect(streams: dict[Stream, Path], file_format: str = "parquet") -> duckdb.DuckDBPyConnection:
    """Two threads, the streams as views."""
    database = duckdb.connect(config={"threads": 2})
    for stream, folder in streams.items():
        database.execute(f"CREATE VIEW {stream} AS SELECT * FROM {_read(stream, folder, file_format)}")
    return database


def _read(stream: Stream, folder: Path, file_format: str) -> str:
    if file_format == "parquet":
        return f"read_parquet('{folder}/*')"
    columns = ", ".join("'{}': '{}'".format(*column.split()) for column in COLUMNS[stream].split(", "))
    return f"read_json('{folder}/*', columns = {{{columns}}})"


def compare(query: Query, data: Dataset, results: Path) -> int:
    """The number of rows, all equal, or Mismatch. `results`: a folder of parquet, or of CSV from Flink."""
    database = connect(data.folders, data.format)
    assert data.flush_us is not None
    complete = f"WHERE window_end < {data.flush_us - SLACK_US}"
    database.execute(f"CREATE TABLE expected AS SELECT {', '.join(query.columns)} FROM ({query.duckdb}) {complete}")
    database.execute(f"CREATE TABLE found AS SELECT * FROM ({_found(query, results)}) {complete}")
    missing = _count(database, "FROM expected EXCEPT ALL FROM found")
    added = _count(database, "FROM found EXCEPT ALL FROM expected")
    rows = _count(database, "FROM expected")
    if missing or added or not rows:
        example = database.execute("(FROM expected EXCEPT ALL FROM found) LIMIT 1").fetchone()
        raise Mismatch(f"of {rows:,} rows {missing:,} are missing and {added:,} are others; missing is {example}")
    return rows


def _count(database: duckdb.DuckDBPyConnection, rows: str) -> int:
    counted = database.execute(f"SELECT count(*) FROM ({rows})").fetchone()
    assert counted is not None
    return int(counted[0])


def _found(query: Query, results: Path) -> str:
    columns = ", ".join(
        f"epoch_us({name}) AS {name}" if name in {"window_start", "window_end"} else name for name in query.columns
    )
    if list(results.rglob("*.parquet")):
        return f"SELECT {columns} FROM read_parquet('{results}/**/*.parquet')"
    types = ", ".join(f"'{name}': '{TYPES.get(name, 'BIGINT')}'" for name in query.columns)
    return f"SELECT {columns} FROM read_csv('{results}/**/part-*', header = false, columns = {{{types}}})"
