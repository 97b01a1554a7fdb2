"""Quotas: at most `max_groups` groups per window. Rows of further groups are evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.hashing import hash_rows
from windowpane.core.matching import matches
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import RowBuffer, concat, int64s, joined, plain, select, take
from windowpane.core.run_content import Content
from windowpane.core.state import StateEntries
from windowpane.core.windows.ranges import rank_in_runs, run_heads

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_COUNTS, _COUNT, _OLDER = "counts", "count", "admitted"


class Quota(Protocol):
    """Decides which groups a window has."""

    @property
    def max_groups(self) -> int:
        """Groups that a window may have."""

    def admit(self, pairs: pa.RecordBatch) -> Bools:
        """Whether each (window, keys) belongs to a group that the window has, or still has room for."""


class GroupQuota:
    """Remembers the groups admitted to each open window. A micro-batch looks up the groups that occur in it."""

    def __init__(self, max_groups: int, keys: Sequence[str]) -> None:
        self.max_groups = max_groups
        self._keys, self._names = tuple(keys), [c.WINDOW_KEY, *keys]
        self._admitted = Panes(Content(joined, self._keys))
        """One pane per window."""
        self._counts: Counter[int] = Counter()

    def admit(self, pairs: pa.RecordBatch) -> Bools:
        """The first groups of a window have room, in the order of `pairs` and after those of earlier calls."""
        fresh = plain(pairs.select(self._names))
        groups, first = group_rows([fresh.column(name) for name in self._names], fresh.num_rows)
        heads = take(fresh, first)
        known = self._is_known(heads)
        windows = int64s(heads, c.WINDOW_KEY)
        before = np.array([self._counts[window] for window in windows.tolist()], np.int64)
        admitted = known.copy()
        admitted[~known] = (_rank_within(windows[~known]) + before[~known]) < self.max_groups
        self._remember(select(heads, admitted & ~known))
        return admitted[groups.ids]

    def admitted(self, requests: pa.RecordBatch) -> pa.RecordBatch:
        """The requests that are admitted, in the order of their arrival numbers and without them."""
        ordered = take(requests, np.argsort(int64s(requests, c.ARRIVAL), kind="stable")).drop_columns([c.ARRIVAL])
        return select(ordered, self.admit(ordered))

    def _is_known(self, heads: pa.RecordBatch) -> Bools:
        found = concat(self._found(heads))
        if found is None:
            return np.zeros(heads.num_rows, bool)
        return matches(heads, found, self._names) >= 0

    def _found(self, heads: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Remembered groups that may be among these."""
        windows = int64s(heads, c.WINDOW_KEY)
        hashes = hash_rows([heads.column(name) for name in self._keys], heads.num_rows)
        for window in np.intersect1d(windows, self._admitted.starts()).tolist():
            found = self._admitted.lookup(window, np.unique(hashes[windows == window]))
            if found is not None:
                yield found.add_column(0, c.WINDOW_KEY, pa.array(np.full(found.num_rows, window, np.int64)))

    def _remember(self, fresh: pa.RecordBatch) -> None:
        windows = int64s(fresh, c.WINDOW_KEY)
        self._admitted.append_by(windows, fresh.select(self._keys))
        self._counts.update(windows.tolist())

    def forget(self, closed: Int64s) -> None:
        """Forget the groups of closed windows."""
        for window in np.intersect1d(closed, self._admitted.starts()).tolist():
            self._admitted.drop(window)
            del self._counts[window]

    def windows(self) -> Int64s:
        """Keys of the windows that have groups."""
        return np.array(self._admitted.starts(), np.int64)

    def tables(self) -> dict[str, pa.RecordBatch]:
        """For the operator's header: how many groups each window has."""
        columns = [pa.array(self._counts.keys(), pa.int64()), pa.array(self._counts.values(), pa.int64())]
        return {_COUNTS: pa.RecordBatch.from_arrays(columns, [c.WINDOW_KEY, _COUNT])}

    def save(self, entries: StateEntries) -> None:
        self._admitted.save(entries)

    def divided(self) -> tuple[Divisible, ...]:
        """What shards have different rows of."""
        return (self._admitted,)

    def recount(self) -> None:
        """The groups are those that are stored, each once."""
        self._counts = Counter({window: self._admitted.rows([window]) for window in self._admitted.starts()})

    def load(self, entries: StateEntries, tables: Mapping[str, pa.RecordBatch]) -> None:
        """`tables`: of the header, in which older versions had the groups."""
        self._admitted.load(entries)
        counts = tables.get(_COUNTS)
        if counts is not None:
            found = zip(int64s(counts, c.WINDOW_KEY).tolist(), int64s(counts, _COUNT).tolist(), strict=True)
            self._counts = Counter(dict(found))
        if _OLDER in tables:
            self._remember(tables[_OLDER])


class DecidedGroups:
    """The groups that another stage has admitted for the rows of one micro-batch."""

    def __init__(self, max_groups: int, keys: Sequence[str]) -> None:
        self.max_groups = max_groups
        self._names = [c.WINDOW_KEY, *keys]
        self._admitted = RowBuffer()

    def add(self, admitted: pa.RecordBatch) -> None:
        self._admitted.append(admitted.select(self._names))

    def clear(self) -> None:
        self._admitted.replace(None)

    def admit(self, pairs: pa.RecordBatch) -> Bools:
        """Whether each (window, keys) is among the admitted ones."""
        known = self._admitted.rows()
        return np.zeros(pairs.num_rows, bool) if known is None else matches(pairs, known, self._names) >= 0


def _rank_within(values: Int64s) -> Int64s:
    """Position of each element among the equal elements before it."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = rank_in_runs(run_heads(values[order]))
    return ranks
