"""Results of the engines row by row against DuckDB's over the same files: as multisets, both ways.

Of windows in processing time, which no two runs have alike, what must hold of any is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from bench.nexmark.datasets import Dataset
from bench.nexmark.generator import COLUMNS, FLUSH_KEY, Stream, Table
from bench.nexmark.query import DECIMALS, TEXTS, TIMES, Query

TYPES = dict.fromkeys(TEXTS, "VARCHAR") | dict.fromkeys(TIMES, "TIMESTAMP") | dict.fromkeys(DECIMALS, "DECIMAL(23, 3)")
SLACK_US = 1_800_000_000
"""Windows of the flushing row, an hour after the others, are left out: not every engine has closed them."""


class Mismatch(Exception):  # noqa: N818  # what it is called in a report
    """An engine's rows are not the expected ones."""


def connect(
    streams: dict[Stream, Path], file_format: str = "parquet", static: Mapping[Table, Path] | None = None
) -> duckdb.DuckDBPyConnection:
    """Two threads, streams and static tables as views."""
    database = duckdb.connect(config={"threads": 2})
    for stream, folder in streams.items():
        database.execute(f"CREATE VIEW {stream} AS SELECT * FROM {_read(stream, folder, file_format)}")
    for table, folder in (static or {}).items():
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder}/*')")
    return database


def _read(stream: Stream, folder: Path, file_format: str) -> str:
    if file_format == "parquet":
        return f"read_parquet('{folder}/*')"
    columns = ", ".join("'{}': '{}'".format(*column.split()) for column in COLUMNS[stream].split(", "))
    return f"read_json('{folder}/*', columns = {{{columns}}})"


def compare(query: Query, data: Dataset, results: Path) -> int:
    """The number of rows, all equal, or Mismatch. `results`: a folder of parquet, or of CSV from Flink."""
    database = connect(data.folders, data.format, data.tables)
    return _compare_sums(query, database, results) if query.clocked_s else _compare_rows(query, data, database, results)


def _compare_sums(query: Query, database: duckdb.DuckDBPyConnection, results: Path) -> int:
    """Of windows by the clock: their width, that each comes once for a key, and what all of a key's count together."""
    key, width_us = query.columns[0], query.clocked_s * 1_000_000
    database.execute(f"CREATE TABLE found AS SELECT * FROM ({_found(query, results)}) WHERE {key} <> {FLUSH_KEY}")
    aligned = f"window_end - window_start = {width_us} AND window_start % {width_us} = 0"
    wrong = _count(database, f"FROM found WHERE NOT ({aligned})")
    twice = _count(database, f"SELECT {key} FROM found GROUP BY {key}, window_start HAVING count(*) > 1")
    if wrong or twice:
        raise Mismatch(f"{wrong:,} rows have a window of another width, {twice:,} came more than once")
    database.execute(f"CREATE TABLE expected AS SELECT * FROM ({query.duckdb}) WHERE {key} <> {FLUSH_KEY}")
    database.execute(f"CREATE TABLE summed AS SELECT {key}, sum(n)::BIGINT AS n FROM found GROUP BY {key}")
    return _equal(database, "expected", "summed")


def _compare_rows(query: Query, data: Dataset, database: duckdb.DuckDBPyConnection, results: Path) -> int:
    assert data.flush_us is not None
    complete = f"WHERE {query.time} < {data.flush_us - SLACK_US}"
    database.execute(f"CREATE TABLE expected AS SELECT {', '.join(query.columns)} FROM ({query.duckdb}) {complete}")
    database.execute(f"CREATE TABLE found AS SELECT * FROM ({_found(query, results)}) {complete}")
    return _equal(database, "expected", "found")


def _equal(database: duckdb.DuckDBPyConnection, expected: str, found: str) -> int:
    missing = _count(database, f"FROM {expected} EXCEPT ALL FROM {found}")
    added = _count(database, f"FROM {found} EXCEPT ALL FROM {expected}")
    rows = _count(database, f"FROM {expected}")
    if missing or added or not rows:
        example = database.execute(f"(FROM {expected} EXCEPT ALL FROM {found}) LIMIT 1").fetchone()
        raise Mismatch(f"of {rows:,} rows {missing:,} are missing and {added:,} are others; missing is {example}")
    return rows


def _count(database: duckdb.DuckDBPyConnection, rows: str) -> int:
    counted = database.execute(f"SELECT count(*) FROM ({rows})").fetchone()
    assert counted is not None
    return int(counted[0])


def _found(query: Query, results: Path) -> str:
    columns = ", ".join(f"epoch_us({name}) AS {name}" if name in TIMES else name for name in query.columns)
    if list(results.rglob("*.parquet")):
        return f"SELECT {columns} FROM read_parquet('{results}/**/*.parquet')"
    types = ", ".join(f"'{name}': '{TYPES.get(name, 'BIGINT')}'" for name in query.columns)
    return f"SELECT {columns} FROM read_csv('{results}/**/part-*', header = false, columns = {{{types}}})"
