"""Count windows: every `step` rows, the last `count` rows, in released order, over the stream or per partition."""

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
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import RowBuffer, concat, int64s, select, take
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows import Count
from windowpane.core.windows.ranges import expand

Int64s = npt.NDArray[np.int64]

_ROWS, _TOTALS = "rows", "totals"
"""Names, in the state, of the rows, and of the numbers of rows of all partitions."""


@dataclass(frozen=True)
class _Open:
    open: int | None = None
    """Older state has rows and totals in its header."""


class CountWindow(Operator):
    """Window j of a partition is its rows [j*step, j*step+count). Windows are emitted as soon as they are full.

    Rows between windows (step larger than count) are accounted `no_window`. Only the partitions that occur in a
    micro-batch are looked up: how many rows they had, and the rows of those that complete a window.
    """

    shard_scalars = ("open",)

    def __init__(self, spec: Count, partition_by: Sequence[str]) -> None:
        super().__init__()
        self.spec, self._partition_by = spec, tuple(partition_by)
        self._rows = GroupedRows(_ROWS, partition_by, partial(thinned, self._live))
        self._totals = GroupedRows(_TOTALS, partition_by, self._merge_totals)
        self._fresh, self._open = RowBuffer(), 0

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
                yield from self._windows(rows, incomplete=True)
        self._rows.clear()
        yield ControlSignal.END

    def _take_in(self) -> Iterator[Frame]:
        """Emit the windows that the micro-batch's rows complete, and keep the rows for later ones."""
        fresh = self._fresh.rows()
        self._fresh.replace(None)
        if fresh is None:
            return
        rows, before, added = self._numbered(fresh)
        inside = int64s(rows, c.SEQUENCE) % self.spec.step < self.spec.count
        self.counts.no_window += int((~inside).sum())
        self.counts.aggregated += int(inside.sum())
        rows, before = select(rows, inside), before[inside]
        completing = self._completing(rows, before)
        if completing.num_rows:
            known = self._rows.of_groups(completing)
            yield from self._windows(
                completing if known is None else concat([self._live(known), completing]), incomplete=False
            )
        # From here on, the rows of windows that are complete are not needed.
        self._totals.append(added)
        self._rows.append(rows)

    def _numbered(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s, pa.RecordBatch]:
        """The rows with their numbers within their partitions, how many rows the partition of each had before, and how
        many each partition gets.
        """
        groups, first = self._groups(rows)
        heads = take(rows, first)
        before = self._known_totals(heads)
        within = np.empty(rows.num_rows, np.int64)
        within[groups.order] = np.arange(rows.num_rows) - groups.offsets[:-1][groups.ids[groups.order]]
        self._open += int((self._open_of(before + groups.sizes) - self._open_of(before)).sum())
        columns = [heads.column(name) for name in self._partition_by]
        added = pa.RecordBatch.from_arrays([*columns, pa.array(groups.sizes)], [*self._partition_by, c.SEQUENCE])
        before = before[groups.ids]
        return rows.append_column(c.SEQUENCE, pa.array(before + within)), before, added

    def _known_totals(self, heads: pa.RecordBatch) -> Int64s:
        """How many rows each of some partitions has had."""
        known, totals = self._totals.of_groups(heads), np.zeros(heads.num_rows, np.int64)
        if known is not None:
            found = matches(known, heads, self._partition_by)
            np.add.at(totals, found[found >= 0], int64s(known, c.SEQUENCE)[found >= 0])
        return totals

    def _live(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Without rows that only complete windows have."""
        groups, first = self._groups(rows)
        needed_from = self._full(self._known_totals(take(rows, first))) * self.spec.step
        return select(rows, int64s(rows, c.SEQUENCE) >= needed_from[groups.ids])

    def _completing(self, rows: pa.RecordBatch, before: Int64s) -> pa.RecordBatch:
        """The rows of partitions in which some window becomes full."""
        groups, _ = self._groups(rows)
        last = np.zeros(groups.count, np.int64)
        np.maximum.at(last, groups.ids, int64s(rows, c.SEQUENCE))
        return select(rows, self._full(last + 1)[groups.ids] > self._full(before))

    def _windows(self, rows: pa.RecordBatch | None, *, incomplete: bool) -> Iterator[Frame]:
        """The windows of partitions that are full and have not been emitted, or those that are not full."""
        assert rows is not None
        groups, _ = self._groups(rows)
        order = np.lexsort((int64s(rows, c.SEQUENCE), groups.ids))
        ordered, owner = take(rows, order), groups.ids[order]
        sequence = int64s(ordered, c.SEQUENCE)
        first, last = sequence[groups.offsets[:-1]], sequence[groups.offsets[1:] - 1]
        full = self._full(last + 1)
        low, high = (full, last // self.spec.step + 1) if incomplete else (-(-first // self.spec.step), full)
        partition, number = expand(low, np.maximum(low, high))
        if not len(number):
            return
        width = int(sequence.max()) + self.spec.count + 2
        where = owner * width + sequence
        begin = np.searchsorted(where, partition * width + number * self.spec.step)
        end = np.searchsorted(where, partition * width + number * self.spec.step + self.spec.count)
        yield from rows_of_ranges(ordered, begin, np.minimum(end, np.searchsorted(where, (partition + 1) * width)))

    def _full(self, total: Int64s) -> Int64s:
        """How many windows are full after so many rows."""
        return np.maximum((total - self.spec.count) // self.spec.step + 1, 0)

    def _open_of(self, total: Int64s) -> Int64s:
        """How many windows are open after so many rows."""
        return -(-total // self.spec.step) - self._full(total)

    def _groups(self, rows: pa.RecordBatch) -> tuple[Groups, Int64s]:
        return group_rows([rows.column(name) for name in self._partition_by], rows.num_rows)

    def _merge_totals(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return summed(batches, self._partition_by, [c.SEQUENCE])

    def open_count(self) -> int:
        return self._open

    def holdings(self) -> list[Holding]:
        return holdings_of({_ROWS: self._rows, _TOTALS: self._totals})

    def header(self) -> Header:
        return Header.of(_Open(self._open))

    def save(self, entries: StateEntries) -> None:
        self._rows.save(entries)
        self._totals.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._rows.load(entries)
        self._totals.load(entries)
        stored = header.read(_Open).open
        if stored is not None:
            self._open = stored
            return
        if _TOTALS in header.tables:
            self._totals.append(header.tables[_TOTALS])
            self._open = int(self._open_of(int64s(header.tables[_TOTALS], c.SEQUENCE)).sum())
        if _ROWS in header.tables:
            self._rows.append(header.tables[_ROWS])

    def divided(self) -> tuple[Divisible, ...]:
        return (*self._rows.divided(), *self._totals.divided())

    def on_taken_over(self) -> None:
        self._open = sum(int(self._open_of(int64s(part, c.SEQUENCE)).sum()) for part in self._totals.all())
