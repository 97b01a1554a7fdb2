"""Quotas: at most `max_groups` groups per window. Rows of further groups are evicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.rows import RowBuffer, concat, int64s, select, take
from windowpane.core.windows.ranges import rank_in_runs, run_heads

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Quota(Protocol):
    """Decides which groups a window has."""

    @property
    def max_groups(self) -> int:
        """Groups that a window may have."""

    def admit(self, pairs: pa.RecordBatch) -> Bools:
        """Whether each (window, keys) belongs to a group that the window has, or still has room for."""

    def forget(self, closed: Int64s) -> None:
        """Forget the groups of closed windows."""

    def windows(self) -> Int64s:
        """Keys of the windows that have groups."""

    def tables(self) -> dict[str, pa.RecordBatch]:
        """What outlives the micro-batch."""

    def load(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Take up what `tables` gave."""


class GroupQuota:
    """Remembers the groups admitted to each open window, in order of arrival."""

    def __init__(self, max_groups: int, keys: Sequence[str]) -> None:
        self.max_groups = max_groups
        self._names = [c.WINDOW_KEY, *keys]
        self._admitted = RowBuffer()

    def admit(self, pairs: pa.RecordBatch) -> Bools:
        """Whether each (window, keys) belongs to a group that the window has, or still has room for."""
        known = self._admitted.rows()
        offset = 0 if known is None else known.num_rows
        fresh = pairs.select(self._names)
        whole = fresh if known is None else concat([known, fresh])
        assert whole is not None
        groups, first = group_rows([whole.column(name) for name in self._names], whole.num_rows)
        heads = take(whole, first)
        allowed = _rank_within(int64s(heads, c.WINDOW_KEY)) < self.max_groups
        self._admitted.replace(select(heads, allowed))
        return allowed[groups.ids[offset:]]

    def forget(self, closed: Int64s) -> None:
        """Forget the groups of closed windows."""
        rows = self._admitted.rows()
        if rows is not None:
            self._admitted.replace(select(rows, ~np.isin(int64s(rows, c.WINDOW_KEY), closed)))

    def windows(self) -> Int64s:
        """Keys of the windows that have groups."""
        rows = self._admitted.rows()
        return np.zeros(0, np.int64) if rows is None else np.unique(int64s(rows, c.WINDOW_KEY))

    def tables(self) -> dict[str, pa.RecordBatch]:
        return self._admitted.tables("admitted")

    def load(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        self._admitted.replace(tables.get("admitted"))


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
        if known is None:
            return np.zeros(pairs.num_rows, bool)
        whole = concat([known, pairs.select(self._names)])
        assert whole is not None
        groups, first = group_rows([whole.column(name) for name in self._names], whole.num_rows)
        admitted: Bools = (first < known.num_rows)[groups.ids[known.num_rows :]]
        return admitted

    def forget(self, closed: Int64s) -> None:
        """Nothing is remembered."""

    def windows(self) -> Int64s:
        return np.zeros(0, np.int64)

    def tables(self) -> dict[str, pa.RecordBatch]:
        return {}

    def load(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Nothing is remembered."""


def _rank_within(values: Int64s) -> Int64s:
    """Position of each element among the equal elements before it.

    Admitted groups come first in the batch and so keep their rank: what was in stays in.
    """
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = rank_in_runs(run_heads(values[order]))
    return ranks
