"""Expressions over joined rows, in workers: the conditions of a join, and columns over both of its sides."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.evaluation.projection import Projection


@dataclass(frozen=True)
class PairExpressions:
    """Picklable. Implements `core.joining.Evaluate`: the rows with computed columns, KEEP, and why a row fails."""

    projection: Projection
    computed: tuple[str, ...]
    """Columns that are added."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        found = self.projection.rows(rows, 0)
        for name in (*self.computed, c.KEEP, c.ERROR, c.DETAIL):
            if name in found.schema.names:
                rows = rows.append_column(name, found.column(name))
        return rows
