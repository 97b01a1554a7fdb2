"""Rows of groups, kept until they are looked up: a micro-batch reads those of the groups that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from windowpane.core import runs
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import joined
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
        self._panes = Panes(Content(merge, tuple(keys)), f"{name}.")

    def append(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._panes.append(_ALL, rows)

    def of_groups(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows of all groups that occur in `rows`, and maybe of some others; None if there are none."""
        if not self._panes.starts() or not rows.num_rows:
            return None
        return self._panes.lookup(_ALL, self._panes.hashes(rows))

    def all(self) -> Iterator[pa.RecordBatch]:
        """All rows, those of a group at once."""
        return self._panes.parts(self._panes.starts())

    def measure(self) -> tuple[int, int]:
        return self._panes.measure()

    def clear(self) -> None:
        self._panes.clear()

    def save(self, entries: StateEntries) -> None:
        self._panes.save(entries)

    def load(self, entries: StateEntries) -> None:
        self._panes.load(entries)

    def divided(self) -> tuple[Divisible, ...]:
        """What shards have different rows of."""
        return (self._panes,)


def thinned(live: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """A way to merge rows of several runs: if there are many, only those that `live` gives are kept."""
    rows = joined(batches)
    return rows if rows.num_rows < runs.SMALL_ROWS else live(rows)
