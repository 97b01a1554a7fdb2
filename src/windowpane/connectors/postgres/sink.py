"""The PostgreSQL sink. One transaction writes a batch's rows and its entry in a table of batches: exactly once.

Results replace earlier ones of the same window and group. Rows without groups, and side records, are appended.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.lease import lease_lost
from windowpane.connectors.collecting import tables
from windowpane.connectors.postgres.columns import PostgresColumn, json_column, postgres_column
from windowpane.connectors.postgres.reading import canonical_json, read_records, read_rows
from windowpane.connectors.postgres.statements import (
    ADD_FENCE,
    BATCH,
    COUNT,
    CREATE_LEDGER,
    ENTER,
    FENCE,
    FIND,
    FORGET,
    GROUP_ID,
    LOCK,
    MAY_CREATE,
    REENTER,
    SIDE,
    STAGED,
    Target,
    create_table,
    insert_staged,
)
from windowpane.connectors.read_back import ORDER, ReadBack, Written
from windowpane.connectors.sinks import IDENTITY, Sink, SinkBatch, SinkSettings, check_mode
from windowpane.errors import ConfigError, SinkError, gist
from windowpane.remote.access import Access

Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]
BATCHES = "windowpane_batches"
RECORD = "record"
KEPT_BATCHES = 1_000
_PASSING = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
"""The server is unreachable or temporarily failing. Other errors would occur again."""


class PostgresSink(Sink):
    """Writes to one table, which it creates if necessary. `mode` None: update if rows have an identity, else append."""

    delivery = "exactly_once"
    wants_identity = True
    # A value that is too long, nested too deeply, or that the column's type does not hold.
    record_errors = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)

    def __init__(self, name: str, options: Mapping[str, str], mode: str | None = None) -> None:
        super().__init__(name)
        self._conninfo, self._options = connection_info(name, options), options
        parts = options["table"].split(".")
        self._table, self._ledger = sql.Identifier(*parts), sql.Identifier(*parts[:-1], BATCHES)
        self._shown, self._mode = options["table"], mode
        self._schema = parts[-2] if len(parts) > 1 else None
        self._connection: Connection | None = None
        self._prepared = self._identified = False

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> PostgresSink:
        return cls(name, settings.options, settings.mode)

    @property
    def place(self) -> str:
        return self._shown

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        check_mode(self, self._mode, identified=identified)
        self._identified = identified

    def check(self, columns: Sequence[str]) -> None:
        """Log in, and check the columns of a table that is there, or whether the user may create it."""
        wanted = [*columns, *(IDENTITY if self._identified else ()), *([GROUP_ID] if self._identified else []), BATCH]
        try:
            self._check_table(self._connected(), wanted)
        except BaseException as failed:
            self.close()
            if not isinstance(failed, psycopg.Error):
                raise
            raise self._failed(failed) from failed

    def _check_table(self, connection: Connection, wanted: Sequence[str]) -> None:
        there = present_columns(connection, self._table)
        if there:
            self._check_columns(wanted, there)
        elif connection.execute(MAY_CREATE, (self._schema,)).fetchone() != (True,):
            raise SinkError(
                "SINK_TABLE", f"sink `{self.name}`: there is no table `{self._shown}`, and it may not be created",
                "create the table, or grant CREATE on its schema", passing=False,
            )  # fmt: skip

    def for_backfill(self, run: str, *, identified: bool) -> PostgresSink | None:
        """The same table: rows of equal window and group are replaced. Others would be there twice."""
        return self if identified and self._mode != "append" else None

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack:
        """All rows of the table, whoever wrote them: results replace each other. Values are in the form of `_stage`."""
        columns, rows = _columns(SinkBatch(0, lambda: expected))
        names = [column.name for column in columns]
        whole = rows.toArrow()
        try:
            connection = self._connected()
            if not present_columns(connection, self._table):
                return ReadBack(whole.rename_columns(names), whole.slice(0, 0).rename_columns(names))
            found = read_rows(connection, self._table, columns, whole.schema)
        except psycopg.Error as failed:
            what = f"sink `{self.name}` could not read table `{self._shown}`: {gist(failed)}"
            raise SinkError("SINK_READ", what) from failed
        finally:
            self.close()
        jsons = [name for name, column in zip(whole.schema.names, columns, strict=True) if column.type == "jsonb"]
        whole, found = canonical_json(whole, jsons), canonical_json(found, jsons)
        return ReadBack(whole.rename_columns(names), found.rename_columns([*names, ORDER]))

    def side_records(self, spark: SparkSession, written: Written) -> list[str]:
        try:
            connection = self._connected()
            return read_records(connection, self._table, RECORD) if present_columns(connection, self._table) else []
        except psycopg.Error as failed:
            what = f"sink `{self.name}` could not read table `{self._shown}`: {gist(failed)}"
            raise SinkError("SINK_READ", what) from failed
        finally:
            self.close()

    def count_rows(self, access: Access, *, runs: Sequence[str], transform: str, side: bool) -> dict[int, int]:
        try:
            connection = self._connected()
            if not present_columns(connection, self._ledger) or not present_columns(connection, self._table):
                return {}
            place = (self._shown, list(runs), transform, side)
            found = connection.execute(COUNT.format(self._table, self._ledger), place).fetchall()
            return {int(str(batch)): int(str(count)) for batch, count in found}
        except psycopg.Error as failed:
            what = f"sink `{self.name}` could not read table `{self._shown}`: {gist(failed)}"
            raise SinkError("SINK_READ", what) from failed
        finally:
            self.close()

    def read_side(self, access: Access, *, runs: Sequence[str], transform: str) -> list[tuple[int, str]]:
        try:
            connection = self._connected()
            if not present_columns(connection, self._ledger) or RECORD not in present_columns(connection, self._table):
                return []
            record = sql.Identifier(RECORD)
            query = SIDE.format(record, self._table, self._ledger, record)
            place = (self._shown, transform.partition("~")[0], list(runs), transform)
            return [(int(str(batch)), str(text)) for batch, text in connection.execute(query, place).fetchall()]
        except psycopg.Error as failed:
            what = f"sink `{self.name}` could not read table `{self._shown}`: {gist(failed)}"
            raise SinkError("SINK_READ", what) from failed
        finally:
            self.close()

    def take_back(self, access: Access, *, runs: Sequence[str], transform: str, side: bool, after: int) -> int:
        from windowpane.connectors.postgres.taking_back import take_back_rows  # noqa: PLC0415  # imports this module

        return take_back_rows(self.name, self._options, runs=runs, transform=transform, side=side, after=after)

    def write(self, batch: SinkBatch) -> None:
        try:
            connection = self._connected()
            with connection.transaction():
                self._write(connection, batch)
        except BaseException as failed:
            self.close()
            if not isinstance(failed, psycopg.Error):
                raise
            raise self._failed(failed) from failed

    def _failed(self, failed: psycopg.Error) -> SinkError:
        what = f"sink `{self.name}` could not write to table `{self._shown}`: {gist(failed)}"
        return SinkError("SINK_WRITE", what, passing=isinstance(failed, _PASSING))

    def close(self) -> None:
        connection, self._connection, self._prepared = self._connection, None, False
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._conninfo, autocommit=True)
        return self._connection

    def _write(self, connection: Connection, batch: SinkBatch) -> None:
        columns, rows = _columns(batch)
        replacing = batch.identified and self._mode != "append"
        target = Target(self._table, columns, batch.identified, replacing)
        if not self._prepared:
            self._prepare(connection, target)
            self._prepared = True
        entry = self._enter(connection, batch)
        if entry is None:
            return
        _stage(connection, target, tables(rows, batch.rows))
        connection.execute(insert_staged(target, entry))
        connection.execute(sql.SQL("DROP TABLE {}").format(STAGED))
        batch.check_lease()

    def _prepare(self, connection: Connection, target: Target) -> None:
        """Create missing tables, and check that an existing one has the required columns."""
        connection.execute(LOCK)
        connection.execute(CREATE_LEDGER.format(self._ledger))
        if "fence" not in present_columns(connection, self._ledger):
            connection.execute(ADD_FENCE.format(self._ledger))
        if not present_columns(connection, target.table):
            connection.execute(create_table(target))
        self._check_columns(target.names(), present_columns(connection, target.table))

    def _check_columns(self, wanted: Sequence[str], there: Sequence[str]) -> None:
        missing = [name for name in wanted if name not in there]
        if missing:
            raise SinkError(
                "SINK_TABLE", f"sink `{self.name}`: table `{self._shown}` has no column {', '.join(missing)}",
                f"add it, or name a table that does not exist; required columns: {', '.join(wanted)}", passing=False,
            )  # fmt: skip

    def _enter(self, connection: Connection, batch: SinkBatch) -> int | None:
        """The number of this batch's entry; None if the batch has been written before.

        An entry that differs in `final` belongs to a graceful end that was interrupted: its rows are deleted. So are
        those of an earlier run of the same backfill.
        """
        place = (self._shown, batch.run, batch.transform, batch.side_records, batch.batch_id)
        (latest,) = connection.execute(FENCE.format(self._ledger), place[:-1]).fetchone() or (0,)
        if int(str(latest)) > batch.fence:
            raise lease_lost(f"of batch {batch.batch_id} for sink `{self.name}`")
        found = connection.execute(ENTER.format(self._ledger), (*place, batch.final, batch.fence)).fetchone()
        if found is None:
            entry, final = connection.execute(FIND.format(self._ledger), place).fetchone() or (0, batch.final)
            if final == batch.final and not batch.replaces:
                return None
            undo = sql.SQL("DELETE FROM {} WHERE {} = {}")
            connection.execute(undo.format(self._table, sql.Identifier(BATCH), sql.Literal(entry)))
            connection.execute(REENTER.format(self._ledger), (batch.final, entry))
            return int(str(entry))
        connection.execute(FORGET.format(self._ledger), (*place[:-1], batch.batch_id - KEPT_BATCHES))
        return int(str(found[0]))


def connection_info(name: str, options: Mapping[str, str]) -> str:
    """The connection string. It may contain a password, so no message quotes it."""
    try:
        given = conninfo_to_dict(options["url"].removeprefix("jdbc:"))
    except psycopg.Error:
        raise ConfigError(
            "BAD_URL", f"`sinks.{name}.options.url` is not a PostgreSQL URL",
            'write it like postgresql://user@host:5432/database, and the password as password = "${NAME}"',
            key=f"sinks.{name}.options.url",
        ) from None  # fmt: skip
    more = {part: options[part] for part in ("user", "password") if part in options}
    usual = {"connect_timeout": "10", "application_name": "windowpane"}
    return make_conninfo("", **{name: str(value) for name, value in {**usual, **given, **more}.items()})


def _columns(batch: SinkBatch) -> tuple[tuple[PostgresColumn, ...], DataFrame]:
    """How each column is sent, and the rows as they are sent, in columns c0, c1, …."""
    if batch.side_records:
        columns: tuple[PostgresColumn, ...] = (json_column(RECORD, "value"),)
    else:
        columns = tuple(postgres_column(field) for field in batch.frame.schema)
    return columns, batch.frame.selectExpr(*(f"{column.sent} AS c{n}" for n, column in enumerate(columns)))


def present_columns(connection: Connection, table: sql.Identifier) -> list[str]:
    """The columns of a table; empty if it does not exist."""
    named = table.as_string(connection)
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    return [str(row[0]) for row in connection.execute(columns, (named,))]


def _stage(connection: Connection, target: Target, parts: Iterator[pa.Table]) -> None:
    staged = sql.SQL(", ".join(f"c{n} {column.staged}" for n, column in enumerate(target.columns)))
    connection.execute(sql.SQL("CREATE TEMP TABLE {} ({}) ON COMMIT DROP").format(STAGED, staged))
    as_csv = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(STAGED)) as copy:
        for table in parts:
            for batch in table.to_batches(max_chunksize=50_000):
                text = io.BytesIO()
                pyarrow.csv.write_csv(batch, text, as_csv)
                copy.write(text.getbuffer())
