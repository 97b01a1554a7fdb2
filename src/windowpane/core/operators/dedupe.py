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
from windowpane.core.operators.base import Operator
from windowpane.core.rows import RowBuffer, concat, int64s, select
from windowpane.core.side import Key
from windowpane.core.state import Header

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Dedupe(Operator):
    """Remembers key and time of every row that passes, until no row within the horizon can follow.

    Two rows with one key are duplicates when their times differ by less than `within_us`. `slack_us`: how far behind
    the watermark a row may still come (an open window takes it), so that its first copy is still remembered then.
    """

    def __init__(self, by: Sequence[str], within_us: int, *, slack_us: int = 0, keys: Sequence[Key] = ()) -> None:
        super().__init__()
        self._by, self._within_us, self._slack_us, self._keys = tuple(by), within_us, slack_us, tuple(keys)
        self._seen = RowBuffer()

    def on_rows(self, frame: Rows) -> list[Frame]:
        fresh = frame.batch.select([*self._by, c.EVENT_TIME])
        known = self._seen.rows()
        whole = fresh if known is None else concat([known, fresh])
        assert whole is not None
        groups, _ = group_rows([whole.column(name) for name in self._by], whole.num_rows)
        known_count = whole.num_rows - fresh.num_rows
        first = self._first_copies(groups, int64s(whole, c.EVENT_TIME), known_count)
        self._seen.replace(select(whole, first))
        passed = first[known_count:]
        if passed.all():
            return [frame]
        rows = frame.batch
        return [self._duplicates(rows, passed), *([Rows(select(rows, passed))] if passed.any() else [])]

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
        seen = self._seen.rows()
        if seen is not None and self.watermark_us is not None:
            needed = int64s(seen, c.EVENT_TIME) + self._within_us + self._slack_us > self.watermark_us
            self._seen.replace(select(seen, needed) if needed.any() else None)
        return [frame]

    def header(self) -> Header:
        return Header(tables=self._seen.tables("seen"))

    def load_header(self, header: Header) -> None:
        self._seen.replace(header.tables.get("seen"))
