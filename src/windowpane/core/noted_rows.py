"""Which of the rows that an operator keeps are in the result already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.panes import Panes
from windowpane.core.rows import int64s, joined
from windowpane.core.run_content import Content

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class NotedRows(Panes):
    """Rows by the pane they are kept in. Only their keys and arrival numbers are stored."""

    def __init__(self, keys: Sequence[str], prefix: str) -> None:
        super().__init__(Content(joined, tuple(keys)), prefix)
        self._names = [*keys, c.ARRIVAL]

    def note(self, panes: Int64s, rows: pa.RecordBatch) -> None:
        self.append_by(panes, rows.select(self._names))

    def known(self, panes: Int64s, rows: pa.RecordBatch) -> Bools:
        """Which rows, kept in these panes, are noted."""
        present = [pane for pane in np.unique(panes).tolist() if pane in self]
        hashes = self.hashes(rows) if present else np.zeros(0, np.uint64)
        found = [part for pane in present if (part := self.lookup(pane, hashes)) is not None]
        if not found:
            return np.zeros(rows.num_rows, bool)
        return np.isin(int64s(rows, c.ARRIVAL), np.concatenate([int64s(part, c.ARRIVAL) for part in found]))
