"""Joined rows: which rows of both sides are partners, and what a row of the result takes from each of them.

Nothing here is kept over micro-batches. `operators/window_join.py` and `operators/interval_join.py` keep the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import Frame, SideRows
from windowpane.core.groups import Groups
from windowpane.core.rows import flags, int64s, select
from windowpane.core.side import Key
from windowpane.core.windows.ranges import chunks, expand

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
Evaluate: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Joined rows with more columns: computed ones, KEEP if a condition was evaluated, ERROR and DETAIL if one can fail."""

CHUNK_PAIRS = 1_000_000
"""About how many pairs are made at once."""
_MAX_CODE = 1 << 62


@dataclass(frozen=True)
class JoinPlan:
    """A join of the rows of two streams. Rows have the columns RIGHT and `keys`."""

    kind: Kind
    keys: tuple[Key, ...]
    """Columns in which partners agree. NULL agrees with nothing."""
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    """Columns that a joined row takes from the row of that side. If there is none, from the other side's row, which
    has the value for this case."""
    either: tuple[str, ...] = ()
    """Columns that both sides have."""
    conditions: tuple[str, ...] = ()
    """Columns that must hold for partners: what ON asks for beside equal keys."""
    on: Evaluate | None = None
    """Evaluates those of them that are over both sides."""
    keep: str | None = None
    """The column that says whether WHERE keeps a joined row."""
    after: Evaluate | None = None
    """Evaluates other columns over both sides, `keep` if it is one of them."""
    aliases: tuple[tuple[str, str], ...] = ()
    """More names of columns that `after` computes."""
    in_order: bool = True
    """The order of joined rows matters."""

    @property
    def key_names(self) -> list[str]:
        return [key.name for key in self.keys]

    @property
    def preserved(self) -> tuple[bool, bool]:
        """Whether rows of the left and the right side are in the result without a partner, too."""
        return self.kind in ("left", "full"), self.kind in ("right", "full")

    def comparable(self, rows: pa.RecordBatch) -> Bools:
        """Rows that can have partners: no key is NULL."""
        found = np.ones(rows.num_rows, bool)
        for name in self.key_names:
            if rows.column(name).null_count:
                found &= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
        return found

    def taken(self, rows: pa.RecordBatch, left: Int64s, right: Int64s) -> pa.RecordBatch:
        """Joined rows of the rows at these positions. A row without a partner stands in both places."""
        ts, arrival = int64s(rows, c.EVENT_TIME), int64s(rows, c.ARRIVAL)
        times = {c.EVENT_TIME: ts, c.ARRIVAL: arrival}
        columns = {name: pa.array(np.maximum(values[left], values[right])) for name, values in times.items()}
        at = {0: pa.array(left), 1: pa.array(right)}
        names = ((0, (*self.key_names, *self.either, *self.left)), (1, self.right))
        for number, taken in names:
            columns |= {name: rows.column(name).take(at[number]) for name in taken if name not in columns}
        return pa.RecordBatch.from_pydict(columns)

    def are_partners(self, pairs: pa.RecordBatch) -> Bools:
        """Pairs for which all conditions hold."""
        found = np.ones(pairs.num_rows, bool)
        for name in self.conditions:
            found &= flags(pairs, name)
        return found

    def completed(self, joined: pa.RecordBatch) -> pa.RecordBatch:
        """Joined rows with all columns, and KEEP and ERROR where there are conditions."""
        if self.after is not None:
            joined = self.after(joined)
        elif self.keep is not None:
            joined = joined.append_column(c.KEEP, joined.column(self.keep))
        for name, column in self.aliases:
            if name != column:
                joined = joined.append_column(name, joined.column(column))
        return joined

    def order(self, rows: pa.RecordBatch, left: Int64s, right: Int64s, windows: Int64s | None = None) -> Int64s:
        """Joined rows by window, then by time and arrival of the later row, then of the other one."""
        rank = np.empty(rows.num_rows, np.int64)
        rank[np.lexsort((int64s(rows, c.ARRIVAL), int64s(rows, c.EVENT_TIME)))] = np.arange(rows.num_rows)
        earlier, later = np.minimum(rank[left], rank[right]), np.maximum(rank[left], rank[right])
        numbers = np.zeros(1, np.int64) if windows is None else np.unique(windows, return_inverse=True)[1]
        if (int(numbers.max(initial=0)) + 1) * rows.num_rows**2 >= _MAX_CODE:
            return np.lexsort((earlier, later, np.broadcast_to(numbers, later.shape)))
        # One number per pair is sorted several times faster than three.
        return np.argsort((numbers * rows.num_rows + later) * rows.num_rows + earlier)


def kept(joined: pa.RecordBatch) -> pa.RecordBatch:
    """Completed rows that WHERE keeps and that could be computed, as results have them."""
    bad = failing(joined)
    good = np.ones(joined.num_rows, bool) if bad is None else ~bad
    if c.KEEP in joined.schema.names:
        good &= flags(joined, c.KEEP)
    flagged = [name for name in (c.KEEP, c.ERROR, c.DETAIL) if name in joined.schema.names]
    return select(joined, good).drop_columns(flagged)


def partners(cells: Groups, is_right: Bools, comparable: Bools) -> Iterator[tuple[Int64s, Int64s]]:
    """Positions of left rows, and of the right rows in the same cell, about CHUNK_PAIRS at once."""
    left, right = np.flatnonzero(~is_right & comparable), np.flatnonzero(is_right & comparable)
    if not len(left) or not len(right):
        return
    of_right = Groups(cells.ids[right], cells.count)
    by_cell, offsets = right[of_right.order], of_right.offsets
    low, high = offsets[cells.ids[left]], offsets[cells.ids[left] + 1]
    some = high > low
    left, low, high = left[some], low[some], high[some]
    for begin, end in chunks(high - low, CHUNK_PAIRS):
        owner, positions = expand(low[begin:end], high[begin:end])
        yield left[begin:end][owner], by_cell[positions]


def have_partners(cells: Groups, is_right: Bools, comparable: Bools) -> Bools:
    """The same without making pairs: which rows have any."""
    lefts = np.bincount(cells.ids[~is_right & comparable], minlength=cells.count)
    rights = np.bincount(cells.ids[is_right & comparable], minlength=cells.count)
    found: Bools = np.where(is_right, lefts[cells.ids], rights[cells.ids]) > 0
    return found & comparable


def judge(
    plan: JoinPlan, rows: pa.RecordBatch, left: Int64s, right: Int64s, *, clock_us: int, watermark_us: int | None
) -> tuple[Bools, Bools, list[Frame]]:
    """Which pairs of rows at these positions are partners, which of these can be joined, and side rows for the others.

    A pair for which a condition cannot be computed is reported as such: its rows have not been alone.
    """
    if not plan.conditions:
        every = np.ones(len(left), bool)
        return every, every, []
    pairs = plan.taken(rows, left, right)
    pairs = plan.on(pairs) if plan.on is not None else pairs
    good, bad = plan.are_partners(pairs), failing(pairs)
    if bad is None:
        return good, good, []
    return good | bad, good & ~bad, refused(pairs, plan, clock_us, watermark_us)


def failing(joined: pa.RecordBatch) -> Bools | None:
    """Which joined rows `Evaluate` could not compute; None if it can compute all."""
    if c.ERROR not in joined.schema.names:
        return None
    found: Bools = joined.column(c.ERROR).is_valid().to_numpy(zero_copy_only=False)
    return found if found.any() else None


def refused(joined: pa.RecordBatch, plan: JoinPlan, clock_us: int, watermark_us: int | None) -> list[Frame]:
    """Side rows for joined rows that cannot be computed. The account has the rows they are made of, and not these."""
    bad = failing(joined)
    if bad is None:
        return []
    rows = select(joined, bad)
    batch = side.side_batch(
        "error", rows.column(c.ERROR), rows, clock_us=clock_us, watermark_us=watermark_us, keys=plan.keys,
        detail=rows.column(c.DETAIL),
    )  # fmt: skip
    return [SideRows(batch)]
