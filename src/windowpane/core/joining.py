"""Joined rows: which pairs satisfy the conditions of a join, and what a row of the result takes from each side.

Nothing here is kept over micro-batches. `operators/window_join.py` and `operators/interval_join.py` keep the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import Frame, SideRows
from windowpane.core.rows import flags, int64s, select
from windowpane.core.side import Key

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
Evaluate: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Joined rows with more columns: computed ones, KEEP if a condition was evaluated, ERROR and DETAIL if one can fail."""


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
    once: tuple[bool, bool] = (False, False)
    """Whether rows of the left and the right side belong to one window only: they are results of it, and their time is
    its last instant."""
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


def kept(joined: pa.RecordBatch) -> pa.RecordBatch:
    """Completed rows that WHERE keeps and that could be computed, as results have them."""
    bad = failing(joined)
    good = np.ones(joined.num_rows, bool) if bad is None else ~bad
    if c.KEEP in joined.schema.names:
        good &= flags(joined, c.KEEP)
    flagged = [name for name in (c.KEEP, c.ERROR, c.DETAIL) if name in joined.schema.names]
    return select(joined, good).drop_columns(flagged)


def judge(
    plan: JoinPlan, rows: pa.RecordBatch, left: Int64s, right: Int64s, *, clock_us: int, watermark_us: int | None
) -> tuple[Bools | slice, Bools | slice, list[Frame]]:
    """Which pairs of rows at these positions are partners, which of these can be joined, and side rows for the others.

    A pair for which a condition cannot be computed is reported as such: its rows have not been alone.
    """
    if not plan.conditions:
        return slice(None), slice(None), []
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
    return [SideRows(side.not_read(batch, side.RESULT))]
