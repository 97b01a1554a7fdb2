"""What has been emitted for each window and group: epochs, and changes that are not emitted yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.hashing import UInt64s, hash_rows
from windowpane.core.matching import summed
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import int64s, joined
from windowpane.core.run_content import Content
from windowpane.core.state import StateEntries

Int64s = npt.NDArray[np.int64]
PARCEL_ROWS = 1 << 17
"""Changes that are emitted at once."""


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
    """Remembers how often each window and group was emitted, and which changes are pending. One pane per window."""

    def __init__(self, keys: Sequence[str], policy: EmitPolicy) -> None:
        self._keys, self._policy = tuple(keys), policy
        self._pending = Panes(Content(self._counted, self._keys), "pending.")
        self._emitted = Panes(Content(self._counted, self._keys), "emitted.")
        self.last_us: int | None = None
        """When updates were last emitted."""

    def note(self, changed: pa.RecordBatch) -> None:
        """Remember changed (window, keys)."""
        self._pending.append_by(int64s(changed, c.WINDOW_KEY), self._once(changed))

    def due(self, clock_us: int) -> bool:
        """Whether updates may be emitted now."""
        return self._policy.due(clock_us, self.last_us)

    def take_pending(self, clock_us: int) -> Iterator[pa.RecordBatch]:
        """The pending changes (window, keys), each once, a parcel at a time. They are no longer pending then."""
        parcel: list[pa.RecordBatch] = []
        for window in self._pending.starts():
            self.last_us = clock_us
            for part in self._pending.parts([window]):
                parcel.append(_of_window(window, part.select(self._keys), part.num_rows))
                if sum(each.num_rows for each in parcel) > PARCEL_ROWS:
                    yield pa.concat_batches(parcel)
                    parcel = []
        if parcel:
            yield pa.concat_batches(parcel)
        self._pending.clear()

    def next_epochs(self, emitted: pa.RecordBatch) -> Int64s:
        """The epoch of each (window, keys) that is emitted now. Epochs count from 1."""
        windows, fresh = int64s(emitted, c.WINDOW_KEY), self._once(emitted)
        hashes = hash_rows([emitted.column(name) for name in self._keys], emitted.num_rows)
        whole = joined([*self._known(windows, hashes), fresh.add_column(0, c.WINDOW_KEY, pa.array(windows))])
        groups, _ = group_rows([whole.column(name) for name in (c.WINDOW_KEY, *self._keys)], whole.num_rows)
        epochs = np.zeros(groups.count, np.int64)
        np.add.at(epochs, groups.ids, int64s(whole, c.EPOCH))
        self._emitted.append_by(windows, fresh)
        return epochs[groups.ids[len(groups.ids) - emitted.num_rows :]]

    @property
    def has_emitted(self) -> bool:
        """Whether an open window has been emitted: also before updates were turned off."""
        return bool(self._emitted.starts())

    def forget(self, closed: Int64s) -> None:
        """Forget closed windows, which are not emitted again."""
        for log in (self._pending, self._emitted):
            for window in set(log.starts()).intersection(closed.tolist()):
                log.drop(window)

    def save(self, entries: StateEntries) -> None:
        self._pending.save(entries)
        self._emitted.save(entries)

    def load(self, entries: StateEntries, older: Mapping[str, pa.RecordBatch]) -> None:
        """`older`: tables of the header, in which older versions had all of it."""
        self._pending.load(entries)
        self._emitted.load(entries)
        if "pending" in older:
            self.note(older["pending"])
        if "emitted" in older:
            emitted = older["emitted"]
            self._emitted.append_by(int64s(emitted, c.WINDOW_KEY), emitted.select([*self._keys, c.EPOCH]))

    def divided(self) -> tuple[Divisible, ...]:
        """What shards have different rows of."""
        return self._pending, self._emitted

    def _known(self, windows: Int64s, hashes: UInt64s) -> Iterator[pa.RecordBatch]:
        for window in np.intersect1d(windows, self._emitted.starts()).tolist():
            found = self._emitted.lookup(window, np.unique(hashes[windows == window]))
            if found is not None:
                yield _of_window(window, found, found.num_rows)

    def _once(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        ones = pa.array(np.ones(rows.num_rows, np.int64))
        return pa.RecordBatch.from_arrays([*rows.select(self._keys).columns, ones], [*self._keys, c.EPOCH])

    def _counted(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return summed(batches, self._keys, [c.EPOCH])


def _of_window(window: int, rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Rows with the key of their window in front."""
    windows = pa.array(np.full(count, window, np.int64))
    return pa.RecordBatch.from_arrays([windows, *rows.columns], [c.WINDOW_KEY, *rows.schema.names])
