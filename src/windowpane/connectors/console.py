"""The console sink."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TextIO

from rich.table import Table

from windowpane.connectors.sinks import Sink, SinkBatch, SinkSettings
from windowpane.connectors.tables import table_console

SHOWN = 20


class ConsoleSink(Sink):
    """Prints the first rows of each batch as a table, and the number of further rows."""

    can_wait = False

    def __init__(self, name: str, rows: int = SHOWN, file: TextIO | None = None) -> None:
        super().__init__(name)
        self._rows = rows
        self._console = table_console(file or sys.stdout)

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> ConsoleSink:
        return cls(name, int(settings.options.get("numRows", SHOWN)))

    def for_backfill(self, run: str, *, identified: bool) -> ConsoleSink:
        return self

    def write(self, batch: SinkBatch) -> None:
        if batch.side_records:
            self._print_side_records(batch)
            return
        rows = batch.frame.take(self._rows + 1)
        table = Table(title=f"{self.name}, batch {batch.batch_id}", title_justify="left")
        for column in batch.frame.columns:
            table.add_column(column, overflow="fold")
        for row in rows[: self._rows]:
            table.add_row(*(_shown(value) for value in row))
        self._console.print(table)
        if len(rows) > self._rows:
            self._console.print(f"… and {batch.frame.count() - self._rows:,} more rows")

    def _print_side_records(self, batch: SinkBatch) -> None:
        rows = batch.frame.take(self._rows)
        for row in rows:
            self._console.print(f"{self.name}: {row[0]}", markup=False, soft_wrap=True)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        text = value.isoformat(sep=" ")
        return text.removesuffix("+00:00")
    return str(value)
