"""Joins of two streams whose partners are at most some time apart: pairs are given as soon as both rows have come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import joining, side
from windowpane.core.aggregation import empty_batch
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, SideRows
from windowpane.core.groups import group_rows
from windowpane.core.hashing import distinct, hash_rows
from windowpane.core.joining import JoinPlan
from windowpane.core.noted_rows import NotedRows
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.pairing import Pairing
from windowpane.core.panes import Panes, pane_width_us
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import concat, flags, in_time_order, int64s, joined, plain, select, time_order
from windowpane.core.run_content import Content
from windowpane.core.runs import PIECE_ROWS
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows.cut import Cut
from windowpane.core.windows.ranges import chunks

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PANES_PER_REACH = 16
"""The pane that the watermark is in is read in each micro-batch, so it must be a small part of all rows."""
_USED = "_used"
"""bool: the row found a partner in the micro-batch in which it came."""


@dataclass(frozen=True)
class _State:
    settled_us: int | None
    """The watermark up to which the outcome of rows is decided."""
    held: int


@dataclass(frozen=True)
class Side:
    """What is kept of one side."""

    rows: Panes
    used: NotedRows
    """Rows that have found a partner in a later micro-batch."""
    reach_us: int
    """A row at t is needed until the watermark reaches t + reach_us."""
    width_us: int

    def panes_of(self, ts: Int64s) -> Int64s:
        panes: Int64s = ts // self.width_us
        return panes

    def drop(self, pane: int) -> None:
        self.rows.drop(pane)
        if pane in self.used:
            self.used.drop(pane)

    def were_used(self, rows: pa.RecordBatch) -> Bools:
        """Which rows have found a partner before."""
        return flags(rows, _USED) | self.used.known(self.panes_of(int64s(rows, c.EVENT_TIME)), rows)


class IntervalJoin(Operator):
    """Rows of both sides in; joined rows out, and rows without a partner when none can come any more.

    Partners: right time less left time is in `interval_us`. Rows come from a gate that has taken out late ones.
    """

    shard_scalars = ("held",)

    def __init__(self, join: JoinPlan, interval_us: tuple[int, int], cut: Cut | None = None) -> None:
        """`cut`: of a version of a query: it gives the results whose times are within. Others find partners only."""
        super().__init__()
        self._cut = cut
        self._join, (self._low_us, self._high_us) = join, interval_us
        span_us = self._high_us - self._low_us
        width_us = max(pane_width_us(span_us // PANES_PER_REACH, span_us), 1)
        names = tuple(join.key_names)
        reaches = (self._high_us, -self._low_us)
        self._sides = tuple(
            Side(Panes(Content(joined, names, c.EVENT_TIME), f"{name}."),
                 NotedRows(names, f"{name}_used."), reach_us, width_us)
            for name, reach_us in zip(("left", "right"), reaches, strict=True)
        )  # fmt: skip
        self._incoming: list[pa.RecordBatch] = []
        self._settled_us: int | None = None
        self._held = 0

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        none = np.zeros(0, np.int64)
        return joining.kept(self._join.completed(self._join.taken(empty_batch(given), none, none))).schema

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._incoming.append(plain(frame.batch))
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._take_in()
        if self.watermark_us is not None:
            yield from self._settle(self.watermark_us)
            self._settled_us = self.watermark_us
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._take_in()
        yield from self._settle(None)
        yield ControlSignal.END

    def _take_in(self) -> Iterator[Frame]:
        """Join the rows of the micro-batch with each other and with those that are kept, and keep them."""
        whole = concat(batch for batch in self._incoming if batch.num_rows)
        self._incoming = []
        if whole is None:
            return
        self._held += whole.num_rows
        is_right = flags(whole, c.RIGHT)
        fresh = [_with_used(select(whole, mask)) for mask in (~is_right, is_right)]
        known = [self._known(fresh[1], 0), self._known(fresh[0], 1)]
        found = [np.zeros(each.num_rows, bool) for each in fresh]
        olds = [None if each is None else self._sides[number].were_used(each) for number, each in enumerate(known)]
        yield from self._match(fresh[0], fresh[1], found[0], found[1])
        if known[1] is not None and olds[1] is not None:
            yield from self._match_known(fresh[0], known[1], found[0], olds[1], number=1)
        if known[0] is not None and olds[0] is not None:
            yield from self._match_known(known[0], fresh[1], olds[0], found[1], number=0)
        for number, rows in enumerate(fresh):
            at = rows.schema.get_field_index(_USED)
            yield from self._keep(rows.set_column(at, _USED, pa.array(found[number])), number)

    def _keep(self, rows: pa.RecordBatch, number: int) -> Iterator[Frame]:
        """Keep rows of a side, without those that can have no more partners: the watermark is the new one already."""
        kept, ts, reached_us = self._sides[number], int64s(rows, c.EVENT_TIME), self.watermark_us
        past = np.zeros(len(ts), bool) if reached_us is None else ts + kept.reach_us <= reached_us
        if past.any():
            yield from self._settle_rows(select(rows, past), number)
            rows, ts = select(rows, ~past), ts[~past]
        kept.rows.append_by(kept.panes_of(ts), rows)

    def _known(self, others: pa.RecordBatch, number: int) -> pa.RecordBatch | None:
        """Kept rows of a side that may be partners of rows of the other one."""
        kept = self._sides[number]
        if not others.num_rows or not kept.rows.starts():
            return None
        low_us, high_us = (-self._high_us, -self._low_us) if number == 0 else (self._low_us, self._high_us)
        ts = int64s(others, c.EVENT_TIME)
        hashes = hash_rows([others.column(name) for name in self._join.key_names], others.num_rows)
        order = np.argsort(hashes)
        ts, hashes = ts[order], hashes[order]
        found = []
        for pane in kept.rows.starts():
            begin, end = pane * kept.width_us, (pane + 1) * kept.width_us
            near = (ts + high_us >= begin) & (ts + low_us < end)
            if near.any():
                found.append(kept.rows.lookup(pane, distinct(hashes[near])))
        return concat(part for part in found if part is not None)

    def _match_known(
        self, left: pa.RecordBatch, right: pa.RecordBatch, used_left: Bools, used_right: Bools, *, number: int
    ) -> Iterator[Frame]:
        """Pairs in which the rows of side `number` are kept ones. Notes those that find their first partner."""
        rows, used = ((left, used_left), (right, used_right))[number]
        before = used.copy()
        yield from self._match(left, right, used_left, used_right)
        first = used & ~before
        if first.any():
            kept = self._sides[number]
            kept.used.note(kept.panes_of(int64s(rows, c.EVENT_TIME))[first], select(rows, first))

    def _match(
        self, left: pa.RecordBatch, right: pa.RecordBatch, used_left: Bools, used_right: Bools
    ) -> Iterator[Frame]:
        """Pairs of rows of both batches. Marks those that have a partner in `used_left` and `used_right`."""
        join, count = self._join, left.num_rows
        before = used_left.copy()
        rows = joined([left, right])
        pairing, ts = self._pairing(rows, count), int64s(rows, c.EVENT_TIME)
        for at, others in pairing.partners(ts, (self._low_us, self._high_us)):
            matched, good, frames = joining.judge(
                join, rows, at, others, clock_us=self.clock_us, watermark_us=self.watermark_us
            )
            yield from frames if self._cut is None else _within(self._cut, frames)
            used_left[at[matched]] = True
            used_right[others[matched] - count] = True
            if join.kind not in ("semi", "anti"):
                yield from self._give(rows, at[good], others[good])
        if join.kind == "semi":
            lefts = pairing.rows[pairing.rows < count]
            first = lefts[(used_left & ~before)[lefts]]
            yield from self._give(rows, first, first)

    def _pairing(self, rows: pa.RecordBatch, lefts: int) -> Pairing:
        """The first rows are those of the left side."""
        cells, _ = group_rows([rows.column(name) for name in self._join.key_names], rows.num_rows)
        order = time_order(int64s(rows, c.EVENT_TIME), int64s(rows, c.ARRIVAL))
        return Pairing(cells, np.arange(rows.num_rows) >= lefts, self._join.comparable(rows), order)

    def _give(self, rows: pa.RecordBatch, left: Int64s, right: Int64s) -> Iterator[Frame]:
        """Joined rows of rows at these positions."""
        if self._cut is not None:
            ts = int64s(rows, c.EVENT_TIME)
            own = self._cut.has(np.maximum(ts[left], ts[right]))
            left, right = left[own], right[own]
        if not len(left):
            return
        completed = self._join.completed(self._join.taken(rows, left, right))
        yield from joining.refused(completed, self._join, self.clock_us, self.watermark_us)
        batch = joining.kept(completed)
        if batch.num_rows:
            yield Rows(batch)

    def _settle(self, until_us: int | None) -> Iterator[Frame]:
        """Decide on rows that can have no partner any more, because the watermark has reached `until_us`. None: all."""
        for number, kept in enumerate(self._sides):
            last_us = None if until_us is None else until_us - kept.reach_us
            first_us = None if self._settled_us is None else self._settled_us - kept.reach_us

            def are_due(ts: Int64s, first_us: int | None = first_us, last_us: int | None = last_us) -> Bools:
                due = np.ones(len(ts), bool) if first_us is None else ts > first_us
                return due if last_us is None else due & (ts <= last_us)

            panes = [pane for pane in kept.rows.starts() if last_us is None or pane * kept.width_us <= last_us]
            for first, last in chunks(np.array([kept.rows.rows([pane]) for pane in panes], np.int64), PIECE_ROWS):
                for rows in kept.rows.parts(panes[first:last], are_due):
                    yield from self._settle_rows(rows, number)
            for pane in panes:
                if last_us is None or (pane + 1) * kept.width_us - 1 <= last_us:
                    kept.drop(pane)

    def _settle_rows(self, rows: pa.RecordBatch, number: int) -> Iterator[Frame]:
        """The account of rows of a side; those without a partner are given if the join preserves them."""
        join, found = self._join, self._sides[number].were_used(rows)
        self._held -= rows.num_rows
        excluded = join.kind == "anti" and number == 0
        if join.preserved[number] or excluded:
            alone = in_time_order(select(rows, ~found))
            at = np.arange(alone.num_rows)
            yield from self._give(alone, at, at)
            self.counts.aggregated += int((~found).sum())
            if excluded:
                self.counts.filtered += int(found.sum())
            else:
                self.counts.aggregated += int(found.sum())
            return
        self.counts.aggregated += int(found.sum())
        if not found.all():
            alone = select(rows, ~found)
            self.counts.unmatched += alone.num_rows
            batch = side.side_batch(
                "unmatched", side.NO_PARTNER, alone, clock_us=self.clock_us, watermark_us=self.watermark_us,
                keys=join.keys,
            )  # fmt: skip
            yield SideRows(batch)

    def buffered(self) -> int:
        return self._held

    def holdings(self) -> list[Holding]:
        """Panes of both sides in order of time."""
        found = []
        for name, kept in zip(("left rows", "right rows"), self._sides, strict=True):
            for pane in kept.rows.starts():
                count, size = kept.rows.measure([pane])
                start_us = pane * kept.width_us
                found.append(Holding(name, count, size, start_us=start_us, end_us=start_us + kept.width_us))
        return found

    def header(self) -> Header:
        return Header.of(_State(self._settled_us, self._held))

    def load_header(self, header: Header) -> None:
        state = header.read(_State)
        self._settled_us, self._held = state.settled_us, state.held

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        for kept in self._sides:
            kept.rows.save(entries)
            kept.used.save(entries)

    def load(self, entries: StateEntries) -> None:
        super().load(entries)
        for kept in self._sides:
            kept.rows.load(entries)
            kept.used.load(entries)

    def divided(self) -> tuple[Divisible, ...]:
        return tuple(panes for kept in self._sides for panes in (kept.rows, kept.used))

    def on_taken_over(self) -> None:
        self._held = 0
        for kept in self._sides:
            first_us = None if self._settled_us is None else self._settled_us - kept.reach_us
            for part in kept.rows.parts(kept.rows.starts()):
                ts = int64s(part, c.EVENT_TIME)
                self._held += len(ts) if first_us is None else int((ts > first_us).sum())


def _within(cut: Cut, frames: list[Frame]) -> Iterator[Frame]:
    """Side rows of pairs whose times are within a cut."""
    for frame in frames:
        assert isinstance(frame, SideRows)
        own = cut.has(int64s(frame.batch, "event_us"))
        if own.any():
            yield SideRows(select(frame.batch, own))


def _with_used(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column(_USED, pa.array(np.zeros(rows.num_rows, bool)))
