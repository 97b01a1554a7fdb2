"""Takes back what batches after a savepoint have written to a table, for a pipeline that goes back to the savepoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from windowpane.connectors.postgres.sink import BATCHES, KEPT_BATCHES, connection_info, present_columns
from windowpane.connectors.postgres.statements import BATCH
from windowpane.errors import SinkError, gist

_FOUND = sql.SQL(
    "SELECT entry, batch_id FROM {} WHERE target = %s AND run = ANY(%s) AND transform = %s AND side = %s "
    "AND batch_id > %s FOR UPDATE"
)
_UNDO = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)")
_LEAVE = sql.SQL("DELETE FROM {} WHERE entry = ANY(%s)")


def take_back_rows(
    name: str, options: Mapping[str, str], *, runs: Sequence[str], transform: str, side: bool, after: int
) -> int:
    """Delete the rows of these runs' batches after `after`, and their entries. Gives the number of rows.

    The table of batches has the last 1,000 of each run. SinkError if a run has written more since.
    """
    parts = options["table"].split(".")
    table, ledger = sql.Identifier(*parts), sql.Identifier(*parts[:-1], BATCHES)
    try:
        with psycopg.connect(connection_info(name, options)) as connection:
            if not present_columns(connection, ledger) or not present_columns(connection, table):
                return 0
            place = (options["table"], list(runs), transform, side, after)
            found = connection.execute(_FOUND.format(ledger), place).fetchall()
            if found and max(int(str(batch)) for _, batch in found) - after > KEPT_BATCHES:
                raise SinkError(
                    "SINK_TOO_FAR",
                    f"sink `{name}` knows the rows of the last {KEPT_BATCHES:,} batches only, and more came since",
                    f"delete what came after the savepoint from table `{options['table']}` yourself, and go back with "
                    "--keep-results", passing=False,
                )  # fmt: skip
            entries = [entry for entry, _ in found]
            undone = connection.execute(_UNDO.format(table, sql.Identifier(BATCH)), (entries,)).rowcount
            connection.execute(_LEAVE.format(ledger), (entries,))
            return undone
    except psycopg.Error as failed:
        what = f"sink `{name}` could not take back rows of table `{options['table']}`: {gist(failed)}"
        raise SinkError("SINK_WRITE", what) from failed
