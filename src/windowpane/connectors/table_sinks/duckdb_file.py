"""The DuckDB sink: a table in a file. One transaction writes a batch's rows and its number.

The file is open while a batch is written. Between two batches, other processes can read it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from windowpane.connectors.read_back import Written
from windowpane.connectors.sinks import SinkBatch, SinkSettings
from windowpane.connectors.table_sinks.rows import BATCH, KEY, batch_prefix, large_rows, latest, small_rows
from windowpane.connectors.table_sinks.table_sink import (
    TableSink,
    batch_number,
    batches_in,
    writer_of,
    written_before,
)
from windowpane.errors import ConfigError
from windowpane.remote.access import Access

BATCHES = "windowpane_batches"
_CREATE_BATCHES = (
    f"CREATE TABLE IF NOT EXISTS {BATCHES} "
    "(target VARCHAR, writer VARCHAR, number BIGINT, PRIMARY KEY (target, writer))"
)
_NOTE = f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)"
_NOTED = f"SELECT number FROM {BATCHES} WHERE target = ? AND writer = ?"
_COLUMNS = "SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND NOT internal"
_STAGED = "windowpane_staged"


class DuckDbSink(TableSink[duckdb.DuckDBPyConnection]):
    """A table of a file, both of which it creates if necessary."""

    lasting = (
        duckdb.BinderException, duckdb.CatalogException, duckdb.ConversionException, duckdb.NotImplementedException,
        duckdb.ParserException, duckdb.OutOfRangeException, pa.ArrowException,
    )  # fmt: skip

    def __init__(self, name: str, path: str, table: str, mode: str | None = None) -> None:
        super().__init__(name, f"{table} in {path}", mode)
        self._path, self._table, self._quoted = Path(path), table, '"' + table.replace('"', '""') + '"'

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> DuckDbSink:
        assert settings.path is not None, "checked when the configuration was loaded"
        if "://" in settings.path:
            raise ConfigError(
                "BAD_VALUE", f"sink `{name}` writes to a local file, and `{settings.path}` is an address",
                "name a path, or use the format delta or iceberg", key=f"sinks.{name}.path",
            )  # fmt: skip
        return cls(name, settings.path, settings.options["table"], settings.mode)

    def check(self, columns: Sequence[str]) -> None:
        try:
            with self._opened():
                pass
        except (duckdb.Error, OSError) as failed:
            raise self._failed(failed, "cannot reach") from failed

    @contextlib.contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction, which ends with the block. The file is closed then."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with duckdb.connect(self._path) as connection:
            connection.begin()
            connection.execute(_CREATE_BATCHES)
            yield connection
            connection.commit()

    def _write(self, batch: SinkBatch) -> None:
        """As of the other tables, in one transaction."""
        with self._opened() as connection:
            before = written_before(batch, self._last_number(connection, batch))
            if before != "same":
                self._commit(connection, batch, undo=before == "other", replacing=self.replaces(batch))

    def _load(self) -> duckdb.DuckDBPyConnection | None:
        raise NotImplementedError("a connection lives as long as a transaction")

    def _last_number(self, table: duckdb.DuckDBPyConnection, batch: SinkBatch) -> int | None:
        found = table.execute(_NOTED, [self._table, writer_of(batch)]).fetchall()
        return int(found[0][0]) if found else None

    def _commit(
        self, table: duckdb.DuckDBPyConnection | None, batch: SinkBatch, *, undo: bool, replacing: bool
    ) -> None:
        assert table is not None
        rows = large_rows(batch).toArrow() if batch.large else small_rows(batch)
        table.register(_STAGED, latest(rows) if replacing else rows)
        self._add_columns(table)
        if undo:
            table.execute(f"DELETE FROM {self._quoted} WHERE {BATCH} = ?", [batch.identity])
        if replacing:
            same = " AND ".join(f"{self._quoted}.{column} = {_STAGED}.{column}" for column in KEY)
            table.execute(f"DELETE FROM {self._quoted} USING {_STAGED} WHERE {same}")
        table.execute(f"INSERT INTO {self._quoted} BY NAME SELECT * FROM {_STAGED}")
        table.execute(_NOTE, [self._table, writer_of(batch), batch_number(batch)])
        batch.check_lease()

    def _add_columns(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the table, or the columns that it lacks."""
        connection.execute(f"CREATE TABLE IF NOT EXISTS {self._quoted} AS SELECT * FROM {_STAGED} LIMIT 0")
        there = {name for (name,) in connection.execute(_COLUMNS, [self._table]).fetchall()}
        for name, kind, *_ in connection.execute(f"DESCRIBE {_STAGED}").fetchall():
            if name not in there:
                connection.execute(
                    f'ALTER TABLE {self._quoted} ADD COLUMN "{name.replace(chr(34), chr(34) * 2)}" {kind}'
                )

    def take_back(self, access: Access, *, runs: Sequence[str], transform: str, side: bool, after: int) -> int:
        if not self._path.exists():
            return 0
        with self._opened() as connection:
            if not connection.execute(_COLUMNS, [self._table]).fetchall():
                return 0
            whose = [batch_prefix(Written(transform, run), side=side) for run in runs]
            return sum(self._delete_after(connection, prefix, after) for prefix in whose)

    def _delete_after(self, table: duckdb.DuckDBPyConnection, prefix: str, after: int) -> int:
        found = table.execute(f"DELETE FROM {self._quoted} WHERE {batches_in(prefix, after)}").fetchall()
        return int(found[0][0])

    def _read(self, prefix: str | None) -> pa.Table | None:
        if not self._path.exists():
            return None
        with self._opened() as connection:
            if not connection.execute(_COLUMNS, [self._table]).fetchall():
                return None
            condition = f"WHERE {batches_in(prefix)}" if prefix is not None else ""
            return connection.sql(f"SELECT * FROM {self._quoted} {condition}").to_arrow_table()
