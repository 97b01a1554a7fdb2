"""SQL statements that write a batch's rows and its entry in the table of batches."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from windowpane.connectors.postgres.columns import PostgresColumn
from windowpane.connectors.sinks import EMIT_EPOCH, GROUP_KEY, WINDOW_ID

BATCH, GROUP_ID = "_batch", "_group_id"
STAGED = sql.Identifier("windowpane_staged")
LOCK = "SELECT pg_advisory_xact_lock(hashtext('windowpane'))"
"""Transforms may create tables at the same time, and IF NOT EXISTS does not prevent conflicts."""


@dataclass(frozen=True)
class Target:
    """A table and the columns that are written to it."""

    table: sql.Identifier
    columns: tuple[PostgresColumn, ...]
    identified: bool
    replacing: bool

    def names(self) -> list[str]:
        """All columns of the table that are written."""
        own = [column.name for column in self.columns]
        return [*own, *([GROUP_ID] if self.identified else []), BATCH]


def create_table(target: Target) -> sql.Composed:
    columns = [sql.SQL("{} " + column.type).format(sql.Identifier(column.name)) for column in target.columns]
    if target.identified:
        columns.append(sql.SQL("{} text").format(sql.Identifier(GROUP_ID)))
    columns.append(sql.SQL("{} bigint").format(sql.Identifier(BATCH)))
    if target.replacing:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(_names(WINDOW_ID, GROUP_ID)))
    return sql.SQL("CREATE TABLE {} ({})").format(target.table, sql.SQL(", ").join(columns))


def insert_staged(target: Target, entry: int) -> sql.Composed:
    """Copies staged rows into the table. Of several emissions of a window and group, the last one is kept."""
    names, values = target.names(), [column.read(f"c{n}") for n, column in enumerate(target.columns)]
    at = {column.name: f"c{n}" for n, column in enumerate(target.columns)}
    if target.identified:
        # A hash, because the length of an index entry is limited and that of a group key is not.
        values.append(f"encode(sha256(convert_to({at[GROUP_KEY]}, 'UTF8')), 'hex')")
    selected = sql.SQL(", ".join([*values, str(entry)]))
    if not target.replacing:
        plain = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}")
        return plain.format(target.table, _names(*names), selected, STAGED)
    latest = sql.SQL(f"DISTINCT ON ({at[WINDOW_ID]}, {at[GROUP_KEY]})")
    order = sql.SQL(f"{at[WINDOW_ID]}, {at[GROUP_KEY]}, {at[EMIT_EPOCH]} DESC")
    key = (WINDOW_ID, GROUP_ID)
    changes = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names if name not in key]
    whole = sql.SQL("INSERT INTO {} ({}) SELECT {} {} FROM {} ORDER BY {} ON CONFLICT ({}) DO UPDATE SET {}")
    return whole.format(
        target.table, _names(*names), latest, selected, STAGED, order, _names(*key), sql.SQL(", ").join(changes)
    )


def _names(*names: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


CREATE_LEDGER = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, target text NOT NULL, "
    "run text NOT NULL, transform text NOT NULL, side boolean NOT NULL, batch_id bigint NOT NULL, "
    "final boolean NOT NULL, written_at timestamptz NOT NULL DEFAULT now(), fence bigint NOT NULL DEFAULT 0, "
    "UNIQUE (target, run, transform, side, batch_id))"
)
ADD_FENCE = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0")
"""For tables of earlier versions."""
ENTER = sql.SQL(
    "INSERT INTO {} (target, run, transform, side, batch_id, final, fence) VALUES (%s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT DO NOTHING RETURNING entry"
)
_PLACE = "target = %s AND run = %s AND transform = %s AND side = %s AND"
FIND = sql.SQL(f"SELECT entry, final FROM {{}} WHERE {_PLACE} batch_id = %s FOR UPDATE")
FENCE = sql.SQL(f"SELECT coalesce(max(fence), 0) FROM {{}} WHERE {_PLACE} true")
"""The highest number of a process that has written for the same checkpoint."""
REENTER = sql.SQL("UPDATE {} SET final = %s, written_at = now() WHERE entry = %s")
MAY_CREATE = "SELECT coalesce(has_schema_privilege(coalesce(%s, current_schema()), 'CREATE'), false)"
"""Whether the user may create a table in a schema, or in the first of the search path."""
FORGET = sql.SQL(f"DELETE FROM {{}} WHERE {_PLACE} batch_id < %s")
COUNT = sql.SQL(
    f"SELECT b.batch_id, count(*) FROM {{}} t JOIN {{}} b ON t.{BATCH} = b.entry "
    "WHERE b.target = %s AND b.run = ANY(%s) AND b.transform = %s AND b.side = %s GROUP BY b.batch_id"
)
"""Rows of a table by batch."""
SIDE = sql.SQL(
    "SELECT coalesce(b.batch_id, -1), t.{}::text FROM {} t "
    f"LEFT JOIN {{}} b ON t.{BATCH} = b.entry AND b.target = %s "
    "WHERE t.{}->>'transform' = %s AND (b.entry IS NULL OR (b.run = ANY(%s) AND b.transform = %s AND b.side))"
)
"""Side records. Those of batches that are no longer in the table of batches are told by what they say of themselves."""
