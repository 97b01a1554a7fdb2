"""What the rows of runs are: how they are merged, what their groups are, and which of them still count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.hashing import UInt64s, hash_rows
from windowpane.core.narrowing import widen
from windowpane.core.rows import select

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
STATE_MARK = "."
"""State columns of an aggregate `_a0` are `_a0.0`, `_a0.1`; no other column has a dot in its name."""
Choice = Callable[[Int64s], Bools]
"""Which rows, by their instants."""


@dataclass(frozen=True)
class Content:
    """What the rows are, and what may be done with them."""

    merge: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
    """Batches in order of age to one in which nothing can be merged further."""
    keys: tuple[str, ...]
    """Columns of the group."""
    time: str | None = None
    """A column of instants, by which rows are chosen."""
    is_needed: Choice | None = None
    """Rows that still count, by their `time`. The others may stay stored, but are not read."""
    states: frozenset[str] | None = None
    """State columns of aggregates. Stored rows may have others, of aggregates that the query no longer has."""

    def current(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Stored rows without state that is no longer needed."""
        if self.states is None:
            return stored
        names = stored.schema.names
        kept = [name for name in names if name in self.states or STATE_MARK not in name]
        return stored if len(kept) == len(names) else stored.select(kept)

    def hashes(self, rows: pa.RecordBatch) -> UInt64s:
        return hash_rows([rows.column(name) for name in self.keys], rows.num_rows)

    def merged(self, parts: Iterable[pa.RecordBatch], chosen: Choice | None = None) -> pa.RecordBatch | None:
        """Stored rows as one batch, those of them that are needed and chosen; None if there are none."""
        kept = self.kept(parts, chosen)
        merged = self.merge(kept) if kept else None
        return merged if merged is not None and merged.num_rows else None

    def kept(self, parts: Iterable[pa.RecordBatch], chosen: Choice | None = None) -> list[pa.RecordBatch]:
        """Stored rows that are needed and chosen, not merged."""
        selected = [self._selected(part, chosen) for part in parts]
        return [widen(part) for part in selected if part.num_rows]

    def _selected(self, rows: pa.RecordBatch, chosen: Choice | None) -> pa.RecordBatch:
        for choice in (self.is_needed, chosen):
            if choice is not None and self.time is not None and rows.num_rows:
                times: Int64s = widen(rows.select([self.time])).column(0).to_numpy()
                rows = select(rows, choice(times))
        return rows
