"""State windows: from a row that opens to the row that emits, over the stream or per partition, in released order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows
from windowpane.core.grouped_rows import GroupedRows, thinned
from windowpane.core.groups import Groups, group_rows
from windowpane.core.matching import matches, summed
from windowpane.core.operators.base import Holding, Operator, holdings_of
from windowpane.core.operators.row_windows import rows_of_ranges, rows_of_ranges_schema
from windowpane.core.operators.state_splits import Splits, split_pairs, split_single
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import RowBuffer, in_time_order, int64s, joined, select, take
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows import State

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ROWS, _OPEN = "rows", "windows"
"""Names, in the state, of the rows, and of the partitions that have an open window."""
_COUNT = "_count"


@dataclass(frozen=True)
class _Numbers:
    opened: int = 0
    """Windows so far."""
    open: int = 0


@dataclass(frozen=True)
class _Fresh:
    """The rows of a micro-batch by partition, and one row of each partition."""

    ordered: pa.RecordBatch
    heads: pa.RecordBatch
    groups: Groups

    @property
    def first(self) -> Int64s:
        """The first row of each partition."""
        return self.groups.offsets[:-1]

    @property
    def owner(self) -> Int64s:
        """The partition of each row."""
        return self.groups.ids[self.groups.order]


class StateWindow(Operator):
    """A partition has at most one open window, and the rows it keeps are that window's rows.

    The row that opens a window does not emit it, even if it matches both. Rows while no window is open, and that open
    none, are accounted `no_window`. With a single condition each matching
    row closes the window before it and opens its own.

    Windows are numbered as they open, and rows are kept with the number of theirs. A micro-batch looks up which of its
    partitions have an open window, and the rows of the windows that close. What opens is added to the state, and what
    closes is subtracted, so that nothing remains of a closed window once both are merged.
    """

    shard_scalars = ("opened", "open")

    def __init__(self, spec: State, partition_by: Sequence[str]) -> None:
        super().__init__()
        self.spec, self._partition_by = spec, tuple(partition_by)
        self._rows = GroupedRows(_ROWS, partition_by, partial(thinned, self._live))
        self._windows = GroupedRows(_OPEN, partition_by, self._merge_windows)
        self._fresh, self._opened, self._open = RowBuffer(), 0, 0

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return rows_of_ranges_schema(given)

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._fresh.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._take_in()
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._take_in()
        for rows in map(self._live, self._rows.all()):
            if rows.num_rows:
                ordered, groups = self._by_partition(rows)
                yield from rows_of_ranges(ordered, groups.offsets[:-1], groups.offsets[1:])
        self._rows.clear()
        self._windows.clear()
        self._open = 0
        yield ControlSignal.END

    def _take_in(self) -> Iterator[Frame]:
        fresh = self._fresh.rows()
        self._fresh.replace(None)
        if fresh is None:
            return
        groups, first = self._partitions(fresh)
        rows = _Fresh(take(fresh, groups.order), take(fresh, first), groups)
        number = self._open_windows(rows.heads)
        find = split_single if self.spec.single else split_pairs
        splits = find(rows.ordered, groups.offsets, number >= 0)
        self._count(rows, splits)
        if len(splits.low):
            yield from self._emit(rows, splits)
        self._keep(rows, splits, number)

    def _count(self, rows: _Fresh, splits: Splits) -> None:
        emitted = splits.high - np.maximum(splits.low, rows.first[splits.owner])
        kept = rows.groups.offsets[1:] - np.maximum(splits.kept_from, rows.first)
        placed = int(emitted.sum() + kept.sum())
        self.counts.aggregated += placed
        self.counts.no_window += rows.ordered.num_rows - placed

    def _emit(self, rows: _Fresh, splits: Splits) -> Iterator[Frame]:
        """Windows as ranges of the rows; those that were open have earlier rows too, which come before."""
        low, high, owner = splits.low, splits.high, splits.owner
        continued = low < rows.first[owner]
        earlier = self._earlier(take(rows.heads, owner[continued]), owner[continued])
        if earlier is None:
            yield from rows_of_ranges(rows.ordered, low, high)
            return
        before, of_groups = earlier
        whole = joined([before, rows.ordered])
        order = np.argsort(np.concatenate([of_groups, rows.owner]), kind="stable")
        counts = np.bincount(of_groups, minlength=rows.groups.count)
        shift = np.cumsum(counts)
        begin = np.where(continued, rows.first[owner] - counts[owner], low) + shift[owner]
        yield from rows_of_ranges(take(whole, order), begin, high + shift[owner])

    def _earlier(self, heads: pa.RecordBatch, ids: Int64s) -> tuple[pa.RecordBatch, Int64s] | None:
        """The kept rows of open windows of some partitions, in order, and the partition of each."""
        known = self._rows.of_groups(heads)
        if known is None:
            return None
        rows = in_time_order(self._live(known))
        found = matches(rows, heads, self._partition_by)
        return select(rows, found >= 0).drop_columns([c.SEQUENCE]), ids[found[found >= 0]]

    def _keep(self, rows: _Fresh, splits: Splits, number: Int64s) -> None:
        """Note which windows are open now, then keep their rows, whose merging asks for these."""
        closed = splits.owner[splits.low < rows.first[splits.owner]]
        is_open = splits.kept_from < rows.groups.offsets[1:]
        opened = np.flatnonzero(is_open & (splits.kept_from >= rows.first))
        now = np.where(is_open, number, -1)
        now[opened] = self._opened + np.arange(len(opened))
        self._opened += len(opened)
        self._open += len(opened) - len(closed)
        self._windows.append(self._changes(rows.heads, closed, number, -1))
        self._windows.append(self._changes(rows.heads, opened, now, 1))
        kept = np.arange(rows.ordered.num_rows) >= splits.kept_from[rows.owner]
        numbers = pa.array(now[rows.owner[kept]])
        self._rows.append(select(rows.ordered, kept).append_column(c.SEQUENCE, numbers))

    def _changes(self, heads: pa.RecordBatch, chosen: Int64s, number: Int64s, sign: int) -> pa.RecordBatch:
        """For the partitions of some heads, that their windows are opened (1) or closed (-1)."""
        columns = [heads.column(name).take(pa.array(chosen)) for name in self._partition_by]
        columns += [pa.array(number[chosen] * sign), pa.array(np.full(len(chosen), sign))]
        return pa.RecordBatch.from_arrays(columns, [*self._partition_by, c.SEQUENCE, _COUNT])

    def _open_windows(self, heads: pa.RecordBatch) -> Int64s:
        """The number of the open window of each partition, -1 if it has none."""
        number, known = np.full(heads.num_rows, -1), self._windows.of_groups(heads)
        if known is not None:
            found = matches(known, heads, self._partition_by)
            is_open = (found >= 0) & (int64s(known, _COUNT) > 0)
            number[found[is_open]] = int64s(known, c.SEQUENCE)[is_open]
        return number

    def _live(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Without rows of closed windows."""
        groups, first = self._partitions(rows)
        return select(rows, int64s(rows, c.SEQUENCE) == self._open_windows(take(rows, first))[groups.ids])

    def _partitions(self, rows: pa.RecordBatch) -> tuple[Groups, Int64s]:
        return group_rows([rows.column(name) for name in self._partition_by], rows.num_rows)

    def _by_partition(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Groups]:
        rows = in_time_order(rows)
        groups, _ = self._partitions(rows)
        return take(rows, groups.order), groups

    def _merge_windows(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Sums of each partition; nothing is left of windows that were opened and closed."""
        sums = summed(batches, self._partition_by, [c.SEQUENCE, _COUNT])
        return select(sums, (int64s(sums, c.SEQUENCE) != 0) | (int64s(sums, _COUNT) != 0))

    def open_count(self) -> int:
        return self._open

    def holdings(self) -> list[Holding]:
        return holdings_of({_ROWS: self._rows, _OPEN: self._windows})

    def header(self) -> Header:
        return Header.of(_Numbers(self._opened, self._open))

    def load_header(self, header: Header) -> None:
        numbers = header.read(_Numbers)
        self._opened, self._open = numbers.opened, numbers.open

    def save(self, entries: StateEntries) -> None:
        self._rows.save(entries)
        self._windows.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._rows.load(entries)
        self._windows.load(entries)
        if "open" in header.tables:
            self._take_up_older(header.tables["open"])

    def divided(self) -> tuple[Divisible, ...]:
        """Windows come before the rows, whose merging asks for these."""
        return (*self._windows.divided(), *self._rows.divided())

    def on_taken_over(self) -> None:
        self._open = sum(int((int64s(part, _COUNT) > 0).sum()) for part in self._windows.all())

    def _take_up_older(self, rows: pa.RecordBatch) -> None:
        """Older versions had the rows of all open windows in the header."""
        groups, first = self._partitions(rows)
        none = np.zeros(0, np.int64)
        fresh = _Fresh(take(rows, groups.order), take(rows, first), groups)
        self._keep(fresh, Splits(none, none, none, fresh.first), np.full(groups.count, -1))
