"""The states of aligned windows, read from the panes they consist of: as a whole, in parcels, or of some groups."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.groups import group_rows
from windowpane.core.matching import matches
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.panes import Panes
from windowpane.core.rows import concat, int64s, joined, select
from windowpane.core.windows.two_stacks import TwoStacks

Int64s = npt.NDArray[np.int64]
PARCEL_ROWS = 1 << 18
"""Windows with more rows are read one range of groups at a time."""


class WindowStates:
    """State batches, whose first column is the key of the window."""

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator, panes: Panes) -> None:
        self._plan, self._aggregator, self._panes = plan, aggregator, panes
        self._stacks = TwoStacks(aggregator.merge)

    def touch(self, pane: int) -> None:
        """This pane has changed, and maybe later ones."""
        self._stacks.touch(pane)

    def in_parcels(self, keys: Int64s) -> Iterator[pa.RecordBatch]:
        """The states of these windows, whose keys are sorted, a few at a time: nobody has to hold all of them."""
        sizes, begin = self._sizes(keys), 0
        while begin < len(keys):
            fitting = int(np.searchsorted(np.cumsum(sizes[begin:]), PARCEL_ROWS, side="right"))
            if fitting == 0:
                yield from self._in_ranges(int(keys[begin]))
            else:
                yield self.whole(keys[begin : begin + fitting])
            begin += max(fitting, 1)

    def of_groups(self, wanted: pa.RecordBatch) -> pa.RecordBatch:
        """The states of these groups: each row has the key of a window, and the columns of a group."""
        keys = np.unique(int64s(wanted, c.WINDOW_KEY))
        names = [c.WINDOW_KEY, *self._plan.key_names]
        panes = self._panes_of(keys)
        if sum(map(self._panes.rows, panes)) <= PARCEL_ROWS:
            return _chosen(self.whole(keys), wanted, names)
        hashes = self._panes.hashes(wanted)
        parts = [
            self._named(key, [self._panes.lookup(pane, hashes) for pane in of_window])
            for key, of_window in zip(keys.tolist(), panes, strict=True)
        ]
        found = concat(part for part in parts if part.num_rows)
        assert found is not None, "groups are wanted that have changed"
        return _chosen(found, wanted, names)

    def whole(self, keys: Int64s) -> pa.RecordBatch:
        """All states of these windows, whose keys are sorted."""
        if self._plan.whole_windows:
            parts = [[self._pane(key)] for key in keys.tolist()]
        else:
            starts = self._panes.starts()
            bounds = zip(*(bound.tolist() for bound in self._plan.windows.bounds(keys)), strict=True)
            parts = [self._stacks.query(low, high, self._pane, starts) for low, high in bounds]
        whole = joined(part for window in parts for part in window)
        windows = np.repeat(np.arange(len(keys)), [sum(part.num_rows for part in window) for window in parts])
        if max(map(len, parts)) > 1:
            return self._merge_windows(whole, keys, windows)
        schema = self._aggregator.state_schema([c.WINDOW_KEY])
        return pa.RecordBatch.from_arrays([pa.array(keys[windows]), *whole.columns], schema=schema)

    def _in_ranges(self, key: int) -> Iterator[pa.RecordBatch]:
        """The groups of one window, by ranges of their hashes."""
        (panes,) = self._panes_of(np.array([key]))
        for low, high in self._panes.ranges(panes):
            states = self._named(key, [self._panes.between(pane, low, high) for pane in panes])
            if states.num_rows:
                yield states

    def _named(self, key: int, parts: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch:
        states = self._aggregator.merge([part for part in parts if part is not None])
        return states.add_column(0, c.WINDOW_KEY, pa.array(np.full(states.num_rows, key, np.int64)))

    def _panes_of(self, keys: Int64s) -> list[Sequence[int]]:
        """The panes of each window."""
        if self._plan.whole_windows:
            return [[key] for key in keys.tolist()]
        starts = self._panes.starts()
        bounds = zip(*(bound.tolist() for bound in self._plan.windows.bounds(keys)), strict=True)
        return [starts[bisect_left(starts, low) : bisect_left(starts, high)] for low, high in bounds]

    def _sizes(self, keys: Int64s) -> Int64s:
        """How many rows the panes of each window have at most. Each pane is asked once, also if windows share it."""
        if self._plan.whole_windows or not len(keys):
            return np.array([self._panes.rows([key]) for key in keys.tolist()], np.int64)
        starts = self._panes.starts()
        before: Int64s = np.cumsum([0, *(self._panes.rows([start]) for start in starts)], dtype=np.int64)
        low, high = (np.searchsorted(starts, bound) for bound in self._plan.windows.bounds(keys))
        return np.subtract(before[high], before[low])

    def _pane(self, start: int) -> pa.RecordBatch:
        state = self._panes.state(start)
        assert state is not None, "every row of a pane is needed"
        return state

    def _merge_windows(self, parts: pa.RecordBatch, keys: Int64s, windows: Int64s) -> pa.RecordBatch:
        """`windows` has the number of the window in `keys` that each part is of, which does not decrease."""
        columns = [parts.column(name) for name in self._plan.key_names]
        groups, first = group_rows([pa.array(windows), *columns], parts.num_rows)
        heads = [pa.array(keys[windows[first]]), *(column.take(pa.array(first)) for column in columns)]
        return self._aggregator.merge_groups(parts, groups, heads, [c.WINDOW_KEY])


def _chosen(states: pa.RecordBatch, wanted: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return select(states, matches(states, wanted, names) >= 0)
