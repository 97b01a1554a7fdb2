"""Dedupe: a row whose key was seen within the horizon of event time is a duplicate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import BatchEnd, Frame, Rows, SideRows
from windowpane.core.groups import Groups, group_rows
from windowpane.core.hashing import distinct, hash_rows
from windowpane.core.operators.base import Holding, Operator, holdings_of
from windowpane.core.panes import Panes, pane_width_us
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import concat, flags, int64s, joined, plain, select
from windowpane.core.run_content import Content
from windowpane.core.side import Key
from windowpane.core.state import StateEntries

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PANES_PER_HORIZON = 4


class Dedupe(Operator):
    """Remembers key and time of every row that passes, to the end of its micro-batch and until no row within the
    horizon can follow.

    Two rows with one key are duplicates when their times differ by less than `within_us`. `slack_us`: how far behind
    the watermark a row may still come (an open window takes it), so that its first copy is still remembered then.
    """

    def __init__(
        self, by: Sequence[str], within_us: int, *, slack_us: int = 0, keys: Sequence[Key] = (),
        of_right: bool | None = None,
    ) -> None:  # fmt: skip
        """`of_right`: in a join of streams, the side whose rows are compared. The others pass."""
        super().__init__()
        self._of_right = of_right
        self._by, self._within_us, self._slack_us, self._keys = tuple(by), within_us, slack_us, tuple(keys)
        self._width_us = pane_width_us(within_us // PANES_PER_HORIZON, within_us)
        self._seen = Panes(Content(joined, self._by, c.EVENT_TIME, self._is_needed))
        """Keys and times by pane of time."""
        self._old: list[pa.RecordBatch] = []
        """Those of this micro-batch that are remembered to its end only."""
        self._forgotten_us: int | None = None
        """The watermark at the end of the micro-batch before."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        if self._of_right is None or not frame.batch.num_rows:
            return self._compare(frame)
        mine = flags(frame.batch, c.RIGHT) == self._of_right
        if mine.all():
            return self._compare(frame)
        if not mine.any():
            return [frame]
        return [Rows(select(frame.batch, ~mine)), *self._compare(Rows(select(frame.batch, mine)))]

    def _compare(self, frame: Rows) -> list[Frame]:
        fresh = plain(frame.batch.select([*self._by, c.EVENT_TIME]))
        if not fresh.num_rows:
            return [frame]
        known = self._known(fresh)
        whole = joined([known, fresh]) if known is not None else fresh
        groups, _ = group_rows([whole.column(name) for name in self._by], whole.num_rows)
        known_count = whole.num_rows - fresh.num_rows
        first = self._first_copies(groups, int64s(whole, c.EVENT_TIME), known_count)
        passed = first[known_count:]
        self._remember(select(fresh, passed))
        if passed.all():
            return [frame]
        rows = frame.batch
        return [self._duplicates(rows, passed), *([Rows(select(rows, passed))] if passed.any() else [])]

    def _known(self, fresh: pa.RecordBatch) -> pa.RecordBatch | None:
        """What was seen of these keys within the horizon, and maybe more, as far as it is still remembered."""
        ts = int64s(fresh, c.EVENT_TIME)
        hashes = hash_rows([fresh.column(name) for name in self._by], fresh.num_rows)
        order = np.argsort(hashes)
        ts, hashes = ts[order], hashes[order]
        found = []
        for pane in self._seen.starts():
            begin = pane * self._width_us
            near = (ts > begin - self._within_us) & (ts < begin + self._width_us + self._within_us)
            if near.any():
                found.append(self._seen.lookup(pane, distinct(hashes[near])))
        remembered = [select(part, self._needed(part)) for part in found if part is not None]
        return concat([*remembered, *self._old])

    def _remember(self, rows: pa.RecordBatch) -> None:
        needed = self._needed(rows)
        if not needed.all():
            self._old.append(select(rows, ~needed))
            rows = select(rows, needed)
        self._seen.append_by(int64s(rows, c.EVENT_TIME) // self._width_us, rows)

    def _needed(self, rows: pa.RecordBatch) -> Bools:
        return self._is_needed(int64s(rows, c.EVENT_TIME))

    def _is_needed(self, times: Int64s) -> Bools:
        if self._forgotten_us is None:
            return np.ones(len(times), bool)
        return times + self._within_us + self._slack_us > self._forgotten_us

    def _first_copies(self, groups: Groups, ts: Int64s, known_count: int) -> Bools:
        """Rows that are not duplicates of an earlier one.

        Each round decides on the first undecided row of every key, and on all rows near it.
        """
        first = np.arange(len(ts)) < known_count
        undecided = np.ones(len(ts), bool)
        while undecided.any():
            rows = np.flatnonzero(undecided)
            leader = np.full(groups.count, -1, np.int64)
            leader[groups.ids[rows[::-1]]] = rows[::-1]
            mine = leader[groups.ids[rows]]
            first[rows[mine == rows]] = True
            near = np.abs(ts[rows] - ts[mine]) < self._within_us
            undecided[rows[near | (mine == rows)]] = False
        return first

    def _duplicates(self, rows: pa.RecordBatch, passed: Bools) -> SideRows:
        again = select(rows, ~passed)
        self.counts.duplicate += again.num_rows
        batch = side.side_batch(
            "duplicate", side.DUPLICATE, again, clock_us=self.clock_us, watermark_us=self.watermark_us, keys=self._keys
        )
        return SideRows(batch)

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        self._forgotten_us = self.watermark_us
        self._old.clear()
        if self.watermark_us is not None:
            for pane in self._seen.starts():
                if (pane + 1) * self._width_us + self._within_us + self._slack_us <= self.watermark_us:
                    self._seen.drop(pane)
        return [frame]

    def holdings(self) -> list[Holding]:
        return holdings_of({"seen": self._seen})

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        self._seen.save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._forgotten_us = self.watermark_us
        self._seen.load(entries)
        if "seen" in header.tables:
            # Older versions had all of it in the header.
            self._remember(header.tables["seen"])

    def divided(self) -> tuple[Divisible, ...]:
        return (self._seen,)

    def on_taken_over(self) -> None:
        self._forgotten_us = self.watermark_us
