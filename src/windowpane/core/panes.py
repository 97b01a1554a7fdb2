"""Accumulators per pane, stored as runs: a micro-batch appends what it added, and reads a pane when it closes.

A new run is merged with those before it that are not larger, as in a binary counter. A row is therefore rewritten a
logarithmic number of times, a pane has few runs, and a small micro-batch does not touch the large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.state import HEADER, StateEntries

_RUN = "run"


@dataclass
class _Run:
    count: int | None
    """Rows. None: a run of an older version that is not read yet."""
    rows: pa.RecordBatch | None
    """None: not read yet."""
    stored_as: str | None = None
    """The name of its entry; None: it is not stored."""


class Panes:
    """One entry per run, named `PANE.NUMBER.ROWS`. Older versions did not write the number of rows."""

    def __init__(self, merge: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]) -> None:
        self._merge = merge
        self._runs: dict[int, list[_Run]] = {}
        self._changed: set[int] = set()
        self._stored: dict[int, set[str]] = {}
        """The entries of each pane."""
        self._entries: StateEntries | None = None

    def starts(self) -> list[int]:
        """All panes, sorted."""
        return sorted(self._runs)

    def append(self, pane: int, delta: pa.RecordBatch) -> None:
        runs = self._runs.setdefault(pane, [])
        runs.append(_Run(delta.num_rows, delta))
        first, rows = len(runs) - 1, delta.num_rows
        while first > 0 and self._count(runs[first - 1]) <= rows:
            first -= 1
            rows += self._count(runs[first])
        self._merge_from(pane, first)

    def state(self, pane: int) -> pa.RecordBatch:
        """All of a pane, whose runs become one."""
        self._merge_from(pane, 0)
        return self._read(self._runs[pane][0])

    def drop(self, pane: int) -> None:
        del self._runs[pane]
        self._changed.add(pane)

    def clear(self) -> None:
        self._changed |= self._runs.keys()
        self._runs.clear()

    def _merge_from(self, pane: int, first: int) -> None:
        """The runs from this one on become one."""
        runs = self._runs[pane]
        if len(runs) - first > 1:
            merged = self._merge([self._read(run) for run in runs[first:]])
            runs[first:] = [_Run(merged.num_rows, merged)]
        if runs[-1].stored_as is None:
            self._changed.add(pane)

    def _count(self, run: _Run) -> int:
        if run.count is None:
            run.count = self._read(run).num_rows
        return run.count

    def _read(self, run: _Run) -> pa.RecordBatch:
        if run.rows is None:
            assert self._entries is not None
            assert run.stored_as is not None
            run.rows = blob.unpack(self._entries.read(run.stored_as)).batches[_RUN]
        return run.rows

    def load(self, entries: StateEntries) -> None:
        """Take up the panes of an earlier micro-batch, unread."""
        self._entries, self._runs, self._changed, self._stored = entries, {}, set(), {}
        for pane, _, count, name in sorted(_parsed(name) for name in entries.names() if name != HEADER):
            self._runs.setdefault(pane, []).append(_Run(None if count < 0 else count, None, name))
            self._stored.setdefault(pane, set()).add(name)

    def save(self, entries: StateEntries) -> None:
        """Write the runs that are new, and remove those that are gone."""
        for pane in sorted(self._changed):
            runs = self._runs.get(pane, [])
            kept = {run.stored_as for run in runs if run.stored_as is not None}
            for number, run in enumerate(runs):
                if run.stored_as is None:
                    run.stored_as = f"{pane}.{number}.{self._count(run)}"
                    entries.write(run.stored_as, blob.pack(blob.State({}, {_RUN: self._read(run)})))
                    kept.add(run.stored_as)
            for name in sorted(self._stored.pop(pane, set()) - kept):
                entries.remove(name)
            if kept:
                self._stored[pane] = kept
        self._changed = set()


def _parsed(name: str) -> tuple[int, int, int, str]:
    """Pane, number, rows (-1 if unknown) and the name itself."""
    pane, number, *count = name.split(".")
    return int(pane), int(number), int(count[0]) if count else -1, name
