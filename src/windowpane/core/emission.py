"""What has been emitted for each window and group: epochs, and changes that are not emitted yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.rows import RowBuffer, concat, int64s, select, take

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EmitPolicy:
    """When results are emitted besides those of closed windows.

    `updates`: a row for every micro-batch that changed the group; with `every_us` at most one per interval.
    """

    updates: bool = False
    every_us: int | None = None

    def due(self, clock_us: int, last_us: int | None) -> bool:
        """Whether updates may be emitted now, if the last ones were emitted at `last_us`."""
        if not self.updates:
            return False
        return self.every_us is None or last_us is None or clock_us - last_us >= self.every_us


class EmissionLog:
    """Remembers how often each window and group was emitted, and which changes are pending."""

    def __init__(self, keys: Sequence[str], policy: EmitPolicy) -> None:
        self._keys, self._policy = tuple(keys), policy
        self._pending = RowBuffer()
        self._emitted = RowBuffer()
        self.last_us: int | None = None
        """When updates were last emitted."""

    def note(self, changed: pa.RecordBatch) -> None:
        """Remember changed (window, keys)."""
        self._pending.append(changed.select([c.WINDOW_KEY, *self._keys]))

    def due(self, clock_us: int) -> bool:
        """Whether updates may be emitted now."""
        return self._policy.due(clock_us, self.last_us)

    def take_pending(self, clock_us: int) -> pa.RecordBatch | None:
        """The pending changes, each once. They are no longer pending then."""
        pending = self._pending.rows()
        self._pending.replace(None)
        if pending is None:
            return None
        self.last_us = clock_us
        _, first = group_rows([pending.column(name) for name in pending.schema.names], pending.num_rows)
        return take(pending, first)

    def next_epochs(self, emitted: pa.RecordBatch) -> Int64s:
        """The epoch of each (window, keys) that is emitted now. Epochs count from 1."""
        names = [c.WINDOW_KEY, *self._keys]
        fresh = emitted.select(names).append_column(c.EPOCH, pa.array(np.ones(emitted.num_rows, np.int64)))
        known = self._emitted.rows()
        whole = fresh if known is None else concat([known, fresh])
        assert whole is not None
        groups, first = group_rows([whole.column(name) for name in names], whole.num_rows)
        epochs = np.zeros(groups.count, np.int64)
        np.add.at(epochs, groups.ids, int64s(whole, c.EPOCH))
        self._emitted.replace(take(whole, first).set_column(len(names), c.EPOCH, pa.array(epochs)))
        return epochs[groups.ids[len(groups.ids) - emitted.num_rows :]]

    def forget(self, closed: Int64s) -> None:
        """Forget closed windows, which are not emitted again."""
        for buffer in (self._pending, self._emitted):
            rows = buffer.rows()
            if rows is not None:
                buffer.replace(select(rows, ~np.isin(int64s(rows, c.WINDOW_KEY), closed)))

    def tables(self) -> dict[str, pa.RecordBatch]:
        return self._pending.tables("pending") | self._emitted.tables("emitted")

    def load(self, last_us: int | None, tables: Mapping[str, pa.RecordBatch]) -> None:
        self.last_us = last_us
        self._pending.replace(tables.get("pending"))
        self._emitted.replace(tables.get("emitted"))
