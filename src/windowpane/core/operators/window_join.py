"""Joins of two streams within windows: rows are kept by pane, and paired when their windows close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import joining, pairing, side
from windowpane.core.aggregation import Aggregator, empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Emissions, Frame, Partials, Rows, SideRows, WindowRows
from windowpane.core.groups import group_rows
from windowpane.core.joining import JoinPlan
from windowpane.core.noted_rows import NotedRows
from windowpane.core.operators.aligned import AlignedIntake, AlignedPlan
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.operators.closing import as_judged_now
from windowpane.core.pairing import Pairing, Pairs
from windowpane.core.panes import Panes
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import flags, int64s, joined, plain, select, time_order
from windowpane.core.run_content import Content
from windowpane.core.runs import PIECE_ROWS
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.ranges import arithmetic_runs, chunks

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_USED = "used."
"""What the names of the entries begin with that list rows which are in the result already."""


@dataclass(frozen=True)
class _State:
    closed_us: int | None
    held: int
    """Rows whose last window is open."""
    lateness_us: int | None = None


class WindowJoin(AlignedIntake):
    """Rows of both sides in; the joined rows of closed windows out.

    The outcome of a row is known when its last window closes: until then it is buffered. Windows of many rows are
    joined in parts, each with all rows of some keys.
    """

    shard_scalars = ("held",)

    def __init__(self, plan: AlignedPlan, join: JoinPlan) -> None:
        super().__init__(plan)
        self._join = join
        names = tuple(join.key_names)
        self._rows, self._used = Panes(Content(joined, names)), NotedRows(names, _USED)
        """Rows by pane; and those that an earlier window of theirs has used."""
        self._closed_us: int | None = None
        self._held = 0

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        none = np.zeros(0, np.int64)
        return joining.kept(self._windowed(empty_batch(given), none, none, none)).schema

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows, frames = self.without_unplaced(frame.batch)
        if rows.num_rows:
            self._held += rows.num_rows
            self._rows.append_by(self._panes_of(rows), plain(rows))
        return frames

    def _panes_of(self, rows: pa.RecordBatch) -> Int64s:
        return self._windows.pane_start(self._windows.pane_number(int64s(rows, c.EVENT_TIME)))

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        if self.watermark_us is not None:
            keys = self.open_windows()
            yield from self._close(keys[self.plan.closed_for(keys, self.watermark_us)])
            self._closed_us = self.watermark_us
            for kept in (self._rows, self._used):
                panes = np.array(kept.starts(), np.int64)
                for pane in panes[self.plan.closed_for(self._windows.last_key(panes), self.watermark_us)].tolist():
                    kept.drop(pane)
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._close(self.open_windows())
        self._rows.clear()
        self._used.clear()
        yield ControlSignal.END

    def open_windows(self) -> Int64s:
        """Keys of the windows that have rows and are not closed, sorted."""
        panes = np.array(self._rows.starts(), np.int64)
        if not len(panes):
            return panes
        keys = np.unique(self._windows.open_for(panes)[1])
        return keys if self._closed_us is None else keys[~self.plan.closed_for(keys, self._closed_us)]

    def _close(self, keys: Int64s) -> Iterator[Frame]:
        """Join the rows of windows, as many windows at a time as have rows for one part."""
        panes = np.array(self._rows.starts(), np.int64)
        start, end = self._windows.bounds(keys)
        low, high = np.searchsorted(panes, start), np.searchsorted(panes, end)
        sizes = np.array([self._rows.rows(panes[a:b].tolist()) for a, b in zip(low, high, strict=True)], np.int64)
        for first, last in chunks(sizes, PIECE_ROWS):
            touched = panes[low[first:last].min() : high[first:last].max()].tolist()
            for rows in self._rows.parts(touched):
                yield from self._join_part(rows, keys[first:last])

    def _join_part(self, rows: pa.RecordBatch, keys: Int64s) -> Iterator[Frame]:
        """Join rows within each of these windows. Of a window's rows, `rows` has all those of some keys."""
        at, windows, last = self._placed(rows)
        due = np.isin(windows, keys)
        at, windows = at[due], windows[due]
        used = np.zeros(rows.num_rows, bool)
        if len(at):
            yield from self._join_windows(rows, at, windows, used)
        final = np.isin(last, keys)
        if self.plan.spec.overlapping():
            self._recall(rows, used, final)
        yield from self._settle(select(rows, final), used[final], last[final])

    def _placed(self, rows: pa.RecordBatch) -> tuple[Int64s, Int64s, Int64s]:
        """Each place of a row in a window: the row, and the window. Then the last window of each row."""
        ts = int64s(rows, c.EVENT_TIME)
        at, windows = self._windows.open_for(ts)
        last = self._windows.last_key(ts)
        if any(self._join.once):
            once = np.where(flags(rows, c.RIGHT), self._join.once[1], self._join.once[0])
            own = self._windows.bounds(windows)[1] == ts[at] + 1
            last[at[once[at] & own]] = windows[once[at] & own]
            kept = ~once[at] | own
            at, windows = at[kept], windows[kept]
        return at, windows, last

    def _join_windows(self, rows: pa.RecordBatch, at: Int64s, windows: Int64s, used: Bools) -> Iterator[Frame]:
        """`at`, `windows`: each place of a row in a window. Marks the rows that are used."""
        join, both = self._join, self._pairing(rows, at, windows)
        is_right = both.is_right
        gathered: list[Pairs] = []
        gives_pairs = join.kind not in ("semi", "anti")
        found = np.zeros(len(at), bool) if join.conditions else both.have_partners()
        for left, right in both.partners() if gives_pairs or join.conditions else ():
            matched, good, frames = joining.judge(
                join, rows, at[left], at[right], clock_us=self.clock_us, watermark_us=self.watermark_us
            )
            yield from frames
            if join.conditions:
                found[left[matched]] = found[right[matched]] = True
            if gives_pairs:
                gathered.append((left[good], right[good]))
            if sum(len(each[0]) for each in gathered) >= pairing.CHUNK_PAIRS:
                yield from self._give(rows, at, windows, _together(gathered))
                gathered = []
        alone = ~found & np.where(is_right, join.preserved[1], join.preserved[0] or join.kind == "anti")
        single = found & ~is_right if join.kind == "semi" else alone
        pairs = _together(gathered)
        yield from self._give(rows, at, windows, both.with_single(pairs, single) if single.any() else pairs)
        in_result = alone | (found & is_right) if join.kind == "anti" else alone | found
        used[at[in_result]] = True

    def _pairing(self, rows: pa.RecordBatch, at: Int64s, windows: Int64s) -> Pairing:
        """The places by window, then by time and arrival, if the order of joined rows matters."""
        join, order = self._join, np.arange(len(at))
        if join.in_order:
            rank = np.empty(rows.num_rows, np.int64)
            rank[time_order(int64s(rows, c.EVENT_TIME), int64s(rows, c.ARRIVAL))] = np.arange(rows.num_rows)
            places = rank[at]
            if self.plan.spec.overlapping():
                places += np.unique(windows, return_inverse=True)[1] * rows.num_rows
            order = np.argsort(places)
        keys = [rows.column(name).take(pa.array(at)) for name in join.key_names]
        cells, _ = group_rows([pa.array(windows), *keys], len(at))
        return Pairing(cells, flags(rows, c.RIGHT)[at], join.comparable(rows)[at], order)

    def _give(self, rows: pa.RecordBatch, at: Int64s, windows: Int64s, pairs: Pairs) -> Iterator[Frame]:
        """Joined rows of pairs of places."""
        left, right = pairs
        if not len(left):
            return
        completed = self._windowed(rows, at[left], at[right], windows[left])
        yield from joining.refused(completed, self._join, self.clock_us, self.watermark_us)
        batch = joining.kept(completed)
        if batch.num_rows:
            yield WindowRows(batch)

    def _windowed(self, rows: pa.RecordBatch, left: Int64s, right: Int64s, windows: Int64s) -> pa.RecordBatch:
        batch = self._join.taken(rows, left, right)
        start, end = self._windows.bounds(windows)
        for name, values in {c.PANE: windows, c.WINDOW_START: start, c.WINDOW_END: end}.items():
            batch = batch.append_column(name, pa.array(values))
        return self._join.completed(batch)

    def _recall(self, rows: pa.RecordBatch, used: Bools, final: Bools) -> None:
        """Rows that earlier windows have used are used; those that are now, and have a later window, are noted."""
        panes = self._panes_of(rows)
        before = self._used.known(panes, rows)
        fresh = used & ~before & ~final
        if fresh.any():
            self._used.note(panes[fresh], select(rows, fresh))
        used |= before

    def _settle(self, rows: pa.RecordBatch, used: Bools, last: Int64s) -> Iterator[Frame]:
        """The account of rows whose last window is closed."""
        self._held -= rows.num_rows
        self.counts.aggregated += int(used.sum())
        if used.all():
            return
        rows, last = select(rows, ~used), last[~used]
        if self._join.kind == "anti":
            is_right = flags(rows, c.RIGHT)
            self.counts.filtered += int((~is_right).sum())
            rows, last = select(rows, is_right), last[is_right]
        if rows.num_rows:
            self.counts.unmatched += rows.num_rows
            start, end = self._windows.bounds(last)
            batch = side.side_batch(
                "unmatched", side.NO_PARTNER, rows, clock_us=self.clock_us, watermark_us=self.watermark_us,
                keys=self._join.keys, window_start=start, window_end=end,
            )  # fmt: skip
            yield SideRows(batch)

    def buffered(self) -> int:
        return self._held

    def open_runs(self) -> list[list[int]]:
        return arithmetic_runs(self.open_windows(), self._windows.key_step)

    def holdings(self) -> list[Holding]:
        """Panes in order of time."""
        found = []
        for pane in self._rows.starts():
            count, size = self._rows.measure([pane])
            found.append(Holding("joined rows", count, size, start_us=pane, end_us=self._windows.pane_end(pane)))
        return found

    def header(self) -> Header:
        return Header.of(_State(self._closed_us, self._held, self.plan.allowed_lateness_us))

    def load_header(self, header: Header) -> None:
        state = header.read(_State)
        self._closed_us = as_judged_now(state.closed_us, state.lateness_us, self.plan.allowed_lateness_us)
        self._held = state.held

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        self._rows.save(entries)
        self._used.save(entries)

    def load(self, entries: StateEntries) -> None:
        super().load(entries)
        self._rows.load(entries)
        self._used.load(entries)

    def divided(self) -> tuple[Divisible, ...]:
        return (self._rows, self._used)

    def on_taken_over(self) -> None:
        self._held = 0
        for part in self._rows.parts(self._rows.starts()):
            last = self._placed(part)[2]
            self._held += len(last)
            if self._closed_us is not None:
                self._held -= int(self.plan.closed_for(last, self._closed_us).sum())


class FoldJoined(Operator):
    """Joined rows of closed windows to partial accumulators, one for each window and group."""

    def __init__(self, aggregator: Aggregator) -> None:
        super().__init__()
        self._aggregator = aggregator

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        return [Partials(self._aggregator.fold(frame.batch, {c.PANE: int64s(frame.batch, c.PANE)}))]


class JoinedRows(Operator):
    """Joined rows are the result."""

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        return _final(empty_batch(given)).schema

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        return [Emissions(_final(frame.batch))]

    def on_rows(self, frame: Rows) -> list[Frame]:
        return [Emissions(_final(frame.batch))]


def _together(pairs: list[Pairs]) -> Pairs:
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(each[0] for each in pairs)]), np.concatenate([none, *(each[1] for each in pairs)])


def _final(rows: pa.RecordBatch) -> pa.RecordBatch:
    batch = rows.append_column(c.EPOCH, pa.array(np.ones(rows.num_rows, np.int64)))
    return batch.append_column(c.FINAL, pa.repeat(pa.scalar(value=True), rows.num_rows))
