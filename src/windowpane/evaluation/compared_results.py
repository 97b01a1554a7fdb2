"""Steps over the results of a window that compare its rows, computed by DuckDB: window functions and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.rows import Int64s
from windowpane.evaluation.projection import Projection

ROW, WINDOW, HELD = "_row", "_window", "_held"
"""The number of a row and of its window, and the condition that rows have to meet before they are compared."""


@dataclass(frozen=True)
class Comparison:
    """Picklable. One step, and what is computed row by row before it."""

    projection: Projection
    """The values that are compared, and HELD if there is a condition."""
    has_condition: bool
    values: tuple[str, ...]
    ties: tuple[str, ...]
    """Columns of the results that order rows which are otherwise alike."""
    grouped: bool
    """The results are groups, and not rows."""
    sql: str
    """Gives ROW of the rows that are kept, in order, with the columns that are added."""
    added: tuple[tuple[str, pa.DataType], ...]

    def of(self, results: pa.Table) -> pa.Table:
        """The rows that the condition keeps, with the columns that the step adds, and without those that it drops.

        `results` have all rows of each of their windows.
        """
        from windowpane.evaluation import duckdb_tables  # noqa: PLC0415  # most queries compare nothing

        found = self.projection.rows(results, 0)
        if self.has_condition:
            held = pc.fill_null(found.column(HELD), False)
            results, found = results.filter(held), found.filter(held)
        columns = {name: found.column(name) for name in self.values}
        columns |= {name: results.column(name) for name in self.ties}
        columns |= {ROW: pa.array(np.arange(results.num_rows)), WINDOW: pa.array(self._windows(results))}
        compared = duckdb_tables.query(duckdb_tables.connect(), self.sql, pa.table(columns))
        kept = results.take(compared.column(ROW))
        for name, kind in self.added:
            kept = kept.append_column(name, compared.column(name).cast(kind))
        return kept

    def _windows(self, results: pa.Table) -> Int64s:
        """The number of each row's window, as of `ResultStage.window_columns`."""
        names = [
            name for name in (c.WINDOW_START, c.WINDOW_END, c.TRIGGER, c.WINDOW_SALT) if name in results.schema.names
        ]
        names += ["emit_epoch"] if c.TRIGGER in names and self.grouped else []
        columns = [results.column(name).combine_chunks() for name in names]
        return group_rows(columns, results.num_rows)[0].ids
