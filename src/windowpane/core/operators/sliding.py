"""Sliding windows: every trigger row has a window [t-lookback, t+lookahead] of its own, over the stream or partition.

Two operators with the same results: SlidingWindow gives the rows of each window, SlidingAggregation the results
directly. Both need rows in released order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import Frame
from windowpane.core.groups import Groups, group_rows
from windowpane.core.hashing import hash_rows
from windowpane.core.operators.results import emit, result_schema
from windowpane.core.operators.row_windows import window_rows, window_rows_schema
from windowpane.core.operators.triggers import SlidingOperator, Triggers, kept_columns
from windowpane.core.rows import concat, int64s, joined, select, take
from windowpane.core.segmented_rows import in_one
from windowpane.core.segments import Segment
from windowpane.core.side import Key
from windowpane.core.summaries import Summaries
from windowpane.core.windows import Sliding
from windowpane.core.windows.cut import Cut
from windowpane.core.windows.ranges import CellIndex, chunks, expand

Int64s = npt.NDArray[np.int64]

CHUNK = 2_000_000
"""About how many (trigger, group) pairs, or rows of unfused windows, are processed at once."""


class _Reach:
    """The rows that the windows of some triggers reach."""

    def __init__(self, operator: SlidingOperator, triggers: Triggers) -> None:
        self.first_us = int(triggers.at_us[0]) - operator.spec.lookback_us
        self.last_us = int(triggers.at_us[-1]) + operator.lookahead_us
        self.all_from_us = int(triggers.at_us[-1]) - operator.spec.lookback_us
        """Every window contains the rows from here to `all_to_us`."""
        self.all_to_us = int(triggers.at_us[0]) + operator.lookahead_us
        self._kept, self._partition_by = operator.kept, operator.partition_by
        self._count, self._triggers = len(triggers), triggers.rows

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """Of the partitions of the triggers."""
        return np.unique(self._hashes(self._triggers))

    def _hashes(self, rows: pa.RecordBatch) -> npt.NDArray[np.uint64]:
        return hash_rows([rows.column(name) for name in self._partition_by], rows.num_rows)

    def segments(self) -> list[Segment]:
        return self._kept.reached(self.first_us, self.last_us)

    def rows(self, segments: Iterable[Segment]) -> pa.RecordBatch | None:
        """The rows of segments, without those of most other partitions."""
        return in_one(self._chosen(self._kept.part(segment, self.first_us, self.last_us)) for segment in segments)

    def _chosen(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        # With many triggers, most partitions are among theirs.
        if not self._partition_by or rows.num_rows < 4 * self._count:
            return rows
        return select(rows, np.isin(self._hashes(rows), self.hashes))


class SlidingWindow(SlidingOperator):
    """Gives the rows of every window: input of Aggregation, or results."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        kept = pa.schema([given.field(name) for name in kept_columns(given)])
        return window_rows_schema(kept, [c.TRIGGER, c.EPOCH, c.ROWS_BEFORE])

    def _emit(self, triggers: Triggers) -> Iterator[Frame]:
        reach = _Reach(self, triggers)
        rows = reach.rows(reach.segments())
        if rows is None:
            return
        partitions, _, of_triggers = _together(self.partition_by, rows, None, triggers.rows)
        cells = CellIndex(partitions, int64s(rows, c.EVENT_TIME))
        ordered = _in_order(rows, cells)
        low, high = cells.ranges(
            of_triggers, triggers.at_us - self.spec.lookback_us, triggers.at_us + self.lookahead_us
        )
        before = _rows_before(triggers.at_us, high - low)
        for first, last in chunks(high - low, CHUNK):
            owner, positions = expand(low[first:last], high[first:last])
            at_us = triggers.at_us[first:last][owner]
            extra = {
                c.TRIGGER: at_us,
                c.EPOCH: triggers.epoch[first:last][owner],
                c.ROWS_BEFORE: before[first:last][owner],
            }
            bounds = at_us - self.spec.lookback_us, at_us + self.lookahead_us
            yield window_rows(ordered, positions, index=owner, bounds=bounds, extra=extra)


def _rows_before(at_us: Int64s, sizes: Int64s) -> Int64s:
    """For each window, how many rows the windows of the same instant before it have. Instants do not decrease."""
    before = np.cumsum(sizes) - sizes
    return before - before[np.searchsorted(at_us, at_us)]


@dataclass(frozen=True)
class _Cells:
    """What windows are made of, by cell (partition and group): rows, and states of segments that all windows have."""

    index: CellIndex
    rows: pa.RecordBatch
    heads: list[pa.Array]
    """The keys of each cell."""
    inner: pa.RecordBatch | None
    inner_of: Int64s
    """The state of each cell in `inner`, or -1."""


class SlidingAggregation(SlidingOperator):
    """Results of every window without visiting its rows one by one: all windows are ranges of rows sorted by group.

    Of the segments that all windows contain, only summaries are read.
    """

    def __init__(
        self,
        spec: Sliding,
        partition_by: Sequence[str],
        keys: Sequence[Key],
        aggregator: Aggregator,
        *,
        conditional: bool,
        cut: Cut | None = None,
    ) -> None:
        super().__init__(spec, partition_by, keys, conditional=conditional, cut=cut)
        self._aggregator = aggregator
        self._summaries = Summaries(aggregator, partition_by)

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return result_schema(self, self._aggregator, self._keys, [c.TRIGGER])

    def _emit(self, triggers: Triggers) -> Iterator[Frame]:
        rows, states = self._read(triggers)
        partitions, first, of_triggers = _together(self.partition_by, rows, states, triggers.rows)
        names = [key.name for key in self._keys]
        keys = concat(part.select(names) for part in (rows, states) if part is not None) if names else None
        columns = [] if keys is None else keys.columns
        groups = partitions
        if not set(names) <= set(self.partition_by):
            groups, first = group_rows([pa.array(partitions.ids), *columns], len(partitions.ids))
        inner, inner_of = self._inner(states, groups, rows.num_rows)
        index = CellIndex(Groups(groups.ids[: rows.num_rows], groups.count), int64s(rows, c.EVENT_TIME))
        heads = [column.take(pa.array(first)) for column in columns]
        cells = _Cells(index, _in_order(rows, index), heads, inner, inner_of)
        cell_order = np.argsort(partitions.ids[first], kind="stable")
        cell_counts = np.bincount(partitions.ids[first], minlength=partitions.count)
        for low, high in chunks(cell_counts[of_triggers], CHUNK):
            owner, cell = _pairs(of_triggers[low:high], cell_order, cell_counts)
            yield from self._emit_pairs(cells, triggers.at_us[low:high][owner], triggers.epoch[low:high][owner], cell)

    def _read(self, triggers: Triggers) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows that windows reach, and the states of segments that all of them contain."""
        reach = _Reach(self, triggers)
        inner, others = list[Segment](), list[Segment]()
        for segment in reach.segments():
            is_inner = reach.all_from_us <= segment.begin_us and segment.last_us <= reach.all_to_us
            (inner if is_inner and self._summaries.is_possible(segment) else others).append(segment)
        rows = reach.rows(others)
        states = self._summaries.states(self.kept, inner, reach.hashes) if inner else None
        return triggers.rows.slice(0, 0) if rows is None else rows, states

    def _inner(self, states: pa.RecordBatch | None, groups: Groups, begin: int) -> tuple[pa.RecordBatch | None, Int64s]:
        """One state for each cell that has some, and which one it is."""
        inner_of = np.full(groups.count, -1, np.int64)
        if states is None:
            return None, inner_of
        present, first, ids = np.unique(groups.ids[begin:], return_index=True, return_inverse=True)
        inner_of[present] = np.arange(len(present))
        return self._summaries.merged(states, Groups(ids, len(present)), first), inner_of

    def _emit_pairs(self, cells: _Cells, at_us: Int64s, epochs: Int64s, cell: Int64s) -> list[Frame]:
        start, end = at_us - self.spec.lookback_us, at_us + self.lookahead_us
        low, high = cells.index.ranges(cell, start, end)
        present = (high > low) | (cells.inner_of[cell] >= 0)
        low, high, cell = low[present], high[present], cell[present]
        keys = [column.take(pa.array(cell)) for column in cells.heads]
        states = self._aggregator.over_ranges(cells.rows, low, high, keys)
        if cells.inner is not None:
            states = self._with_inner(states, keys, cells.inner, cells.inner_of[cell])
        return emit(
            self, self._aggregator, states, self._keys, start=start[present], end=end[present],
            epochs=epochs[present], final=True, extra={c.TRIGGER: at_us[present]},
        )  # fmt: skip

    def _with_inner(
        self, states: pa.RecordBatch, keys: list[pa.Array], inner: pa.RecordBatch, inner_of: Int64s
    ) -> pa.RecordBatch:
        """States of ranges, merged with those of the segments between."""
        has = np.flatnonzero(inner_of >= 0)
        whole = pa.concat_batches([states, take(inner, inner_of[has])])
        owner = np.concatenate([np.arange(states.num_rows), has])
        return self._aggregator.merge_groups(whole, Groups(owner, states.num_rows), keys, [])


def _together(
    names: Sequence[str], rows: pa.RecordBatch, states: pa.RecordBatch | None, triggers: pa.RecordBatch
) -> tuple[Groups, Int64s, Int64s]:
    """Partitions of rows and states, the first row or state of each, and the partitions of the triggers.

    These have no others: each trigger is a row of its window.
    """
    length = rows.num_rows + (0 if states is None else states.num_rows)
    if not names:
        return Groups(np.zeros(length, np.int64), 1), np.zeros(1, np.int64), np.zeros(triggers.num_rows, np.int64)
    begin = _place(rows, triggers)
    parts = [part for part in (rows, states, triggers if begin is None else None) if part is not None]
    whole = joined(part.select(list(names)) for part in parts)
    groups, first = group_rows(whole.columns, whole.num_rows)
    of_triggers = groups.ids[length:] if begin is None else groups.ids[begin : begin + triggers.num_rows]
    return Groups(groups.ids[:length], groups.count), first, of_triggers


def _place(rows: pa.RecordBatch, triggers: pa.RecordBatch) -> int | None:
    """Where the triggers are among the rows, if all rows there are triggers."""
    ts = int64s(triggers, c.EVENT_TIME)
    begin = int(np.searchsorted(int64s(rows, c.EVENT_TIME), ts[0], "left"))
    there = rows.slice(begin, len(ts))
    return begin if there.column(c.ARRIVAL).equals(triggers.column(c.ARRIVAL)) else None


def _pairs(partitions: Int64s, cell_order: Int64s, cell_counts: Int64s) -> tuple[Int64s, Int64s]:
    """Every (trigger, cell of its partition)."""
    offsets = np.cumsum(cell_counts) - cell_counts
    low = offsets[partitions]
    owner, slots = expand(low, low + cell_counts[partitions])
    return owner, cell_order[slots]


def _in_order(rows: pa.RecordBatch, cells: CellIndex) -> pa.RecordBatch:
    return rows if cells.order is None else take(rows, cells.order)
