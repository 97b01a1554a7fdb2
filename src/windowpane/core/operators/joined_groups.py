"""A quota of groups per window over the rows that a join gives, in three operators.

All joined rows of a window come in the micro-batch that closes it, so nothing is remembered between micro-batches.
`RequestJoinedGroups` tells which groups the joined rows of a shard have. `AdmitJoinedGroups` counts the groups of each
window; all requests of a window meet in one of its shards. `QuotaJoined` folds the rows of admitted groups.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import (
    AdmittedGroups,
    BatchEnd,
    ControlSignal,
    Frame,
    GroupRequests,
    Partials,
    Rows,
    SideRows,
    WindowRows,
)
from windowpane.core.groups import group_rows
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.quota import DecidedGroups, GroupQuota
from windowpane.core.rows import concat, int64s, select


class RequestJoinedGroups(Operator):
    """Joined rows of closed windows in; the same rows and their (window, group) pairs out."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        self._keys = plan.key_names

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        rows = frame.batch
        order = np.argsort(int64s(rows, c.ARRIVAL), kind="stable")
        pairs = [rows.column(name).take(pa.array(order)) for name in (c.PANE, *self._keys, c.ARRIVAL)]
        _, first = group_rows(pairs[:-1], rows.num_rows)
        heads = [each.take(pa.array(first)) for each in pairs]
        names = [c.WINDOW_KEY, *self._keys, c.ARRIVAL]
        return [Rows(rows), GroupRequests(pa.RecordBatch.from_arrays(heads, names))]


class AdmitJoinedGroups(Operator):
    """The requests of a micro-batch in; the first groups of each window out. Passes rows on.

    A group is as old as its first joined row, and that is as old as the later one of its two rows.
    """

    divided_by = (c.WINDOW_KEY,)

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        assert plan.max_groups is not None
        self._max_groups, self._keys = plan.max_groups, plan.key_names
        self._requests: list[pa.RecordBatch] = []

    def on_requests(self, frame: GroupRequests) -> list[Frame]:
        self._requests.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._admitted(), frame]

    def on_end(self) -> list[Frame]:
        return [*self._admitted(), ControlSignal.END]

    def _admitted(self) -> list[Frame]:
        whole, self._requests = concat(self._requests), []
        if whole is None:
            return []
        return [AdmittedGroups(GroupQuota(self._max_groups, self._keys).admitted(whole))]


class QuotaJoined(Operator):
    """Folds the joined rows of a micro-batch when it has heard which of their groups are admitted, and evicts others.

    The account here is that of the joined rows: each is aggregated or evicted.
    """

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator) -> None:
        super().__init__()
        assert plan.max_groups is not None
        self._plan, self._aggregator = plan, aggregator
        self._decided = DecidedGroups(plan.max_groups, plan.key_names)
        self._rows: list[pa.RecordBatch] = []

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._rows.append(frame.batch)
        return []

    def on_admitted(self, frame: AdmittedGroups) -> list[Frame]:
        self._decided.add(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._folded(), frame]

    def on_end(self) -> list[Frame]:
        return [*self._folded(), ControlSignal.END]

    def _folded(self) -> list[Frame]:
        held, self._rows = self._rows, []
        folded = [made for rows in held for made in self._fold(rows)]
        self._decided.clear()
        return folded

    def _fold(self, rows: pa.RecordBatch) -> list[Frame]:
        frames = list[Frame]()
        pairs = [rows.column(name) for name in (c.PANE, *self._plan.key_names)]
        taken = self._decided.admit(pa.RecordBatch.from_arrays(pairs, [c.WINDOW_KEY, *self._plan.key_names]))
        self.counts.in_ += rows.num_rows
        self.counts.aggregated += int(taken.sum())
        if not taken.all():
            frames.append(self._evicted(select(rows, ~taken)))
            rows = select(rows, taken)
        if rows.num_rows:
            frames.append(Partials(self._aggregator.fold(rows, {c.PANE: int64s(rows, c.PANE)})))
        return frames

    def _evicted(self, rows: pa.RecordBatch) -> SideRows:
        self.counts.evicted += rows.num_rows
        batch = side.side_batch(
            "evicted", side.MAX_GROUPS, rows, clock_us=self.clock_us, watermark_us=self.watermark_us,
            keys=self._plan.keys, window_start=int64s(rows, c.WINDOW_START), window_end=int64s(rows, c.WINDOW_END),
            detail=f"the window already has {self._decided.max_groups} groups",
        )  # fmt: skip
        return SideRows(batch)
