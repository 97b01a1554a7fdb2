"""Rows of groups, kept until they are looked up: a micro-batch reads those of the groups that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.hashing import hash_rows
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.run_content import Content
from windowpane.core.state import StateEntries

_ALL = 0
"""All rows are in one pane."""


class GroupedRows:
    """Rows by the hash of their group.

    `name`: what the names of their entries begin with. `merge`: batches of rows in order of age to one, without rows
    that are no longer needed.
    """

    def __init__(
        self, name: str, keys: Sequence[str], merge: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
    ) -> None:
        self._keys = tuple(keys)
        self._panes = Panes(Content(merge, self._keys), f"{name}.")

    def append(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._panes.append(_ALL, rows)

    def of_groups(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows of all groups that occur in `rows`, and maybe of some others; None if there are none."""
        if not self._panes.starts() or not rows.num_rows:
            return None
        hashes = np.unique(hash_rows([rows.column(name) for name in self._keys], rows.num_rows))
        return self._panes.lookup(_ALL, hashes)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges of hashes, each of which has few rows."""
        return self._panes.ranges(self._panes.starts())

    def between(self, low: int, high: int) -> pa.RecordBatch | None:
        """The rows of all groups whose hashes are in [low, high)."""
        return self._panes.between(_ALL, low, high) if self._panes.starts() else None

    def all(self) -> Iterator[pa.RecordBatch]:
        """All rows, those of a group at once."""
        found = (self.between(low, high) for low, high in self.ranges())
        return (rows for rows in found if rows is not None)

    def clear(self) -> None:
        self._panes.clear()

    def save(self, entries: StateEntries) -> None:
        self._panes.save(entries)

    def load(self, entries: StateEntries) -> None:
        self._panes.load(entries)

    def divided(self) -> tuple[Divisible, ...]:
        """What shards have different rows of."""
        return (self._panes,)
