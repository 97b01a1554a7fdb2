"""Accumulators per pane, stored as runs: a micro-batch appends what it added, and runs are compacted as they grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.state import HEADER, StateEntries

COMPACT_RUNS = 8
"""A pane with more runs than this is compacted even if they are small."""
_RUN = "run"


@dataclass
class _Run:
    rows: pa.RecordBatch | None
    """None: not read yet."""
    stored_as: int | None = None
    """The number under which it is stored; None: it is not."""


class Panes:
    """One entry per run, named `PANE.NUMBER`. A pane is read when it is needed, and written where it has changed."""

    def __init__(self, merge: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]) -> None:
        self._merge = merge
        self._runs: dict[int, list[_Run]] = {}
        self._changed: set[int] = set()
        self._stored: dict[int, int] = {}
        """How many runs of each pane are stored."""
        self._entries: StateEntries | None = None

    def starts(self) -> list[int]:
        """All panes, sorted."""
        return sorted(self._runs)

    def append(self, pane: int, delta: pa.RecordBatch) -> None:
        runs = self._runs.setdefault(pane, [])
        runs.append(_Run(delta))
        self._changed.add(pane)
        sizes = [self._read(pane, run).num_rows for run in runs]
        if len(runs) > COMPACT_RUNS or 2 * sum(sizes[1:]) > sizes[0]:
            self.state(pane)

    def state(self, pane: int) -> pa.RecordBatch:
        """All of a pane, whose runs become one."""
        runs = self._runs[pane]
        if len(runs) > 1:
            runs[:] = [_Run(self._merge([self._read(pane, run) for run in runs]))]
            self._changed.add(pane)
        return self._read(pane, runs[0])

    def drop(self, pane: int) -> None:
        del self._runs[pane]
        self._changed.add(pane)

    def clear(self) -> None:
        self._changed |= self._runs.keys()
        self._runs.clear()

    def _read(self, pane: int, run: _Run) -> pa.RecordBatch:
        if run.rows is None:
            assert self._entries is not None
            run.rows = blob.unpack(self._entries.read(f"{pane}.{run.stored_as}")).batches[_RUN]
        return run.rows

    def load(self, entries: StateEntries) -> None:
        """Take up the panes of an earlier micro-batch, unread."""
        self._entries, self._runs, self._changed = entries, {}, set()
        named = [name.partition(".") for name in entries.names() if name != HEADER]
        for number, pane in sorted((int(number), int(pane)) for pane, _, number in named):
            self._runs.setdefault(pane, []).append(_Run(None, number))
        self._stored = {pane: len(runs) for pane, runs in self._runs.items()}

    def save(self, entries: StateEntries) -> None:
        """Write the runs that are new, and remove those that are gone."""
        for pane in sorted(self._changed):
            runs = self._runs.get(pane, [])
            for number, run in enumerate(runs):
                if run.stored_as != number:
                    entries.write(f"{pane}.{number}", blob.pack(blob.State({}, {_RUN: self._read(pane, run)})))
                    run.stored_as = number
            for number in range(len(runs), self._stored.pop(pane, 0)):
                entries.remove(f"{pane}.{number}")
            if runs:
                self._stored[pane] = len(runs)
        self._changed = set()
