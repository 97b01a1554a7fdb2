"""A quota of groups per window whose rows are spread over shards by group, in three operators.

`RequestGroups` tells which groups the rows of a task or shard have. `AdmitGroups` counts the groups of each window, in
order of arrival; all requests of a window meet in one of its shards, and no row does. `QuotaAggregation` folds the rows
of admitted groups, and evicts the others.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.frames import (
    AdmittedGroups,
    BatchEnd,
    ControlSignal,
    Frame,
    GroupRequests,
    Rows,
    Watermark,
)
from windowpane.core.groups import group_rows
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.quota import DecidedGroups, GroupQuota
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import concat, int64s, select
from windowpane.core.state import Header, StateEntries


class RequestGroups(Operator):
    """Rows in; the same rows and their (window, group) pairs out. Keeps no state."""

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        self._windows, self._keys = plan.windows, plan.key_names

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows = frame.batch
        positions, windows = self._windows.open_for(int64s(rows, c.EVENT_TIME))
        if not len(positions):
            return [frame]
        order = np.argsort(positions, kind="stable")
        positions, windows = positions[order], windows[order]
        keys = [rows.column(name) for name in self._keys]
        pairs = [pa.array(windows), *(key.take(pa.array(positions)) for key in keys)]
        _, first = group_rows(pairs, len(positions))
        arrivals = pa.array(int64s(rows, c.ARRIVAL)[positions[first]])
        heads = [pair.take(pa.array(first)) for pair in pairs]
        return [frame, GroupRequests(pa.RecordBatch.from_arrays([*heads, arrivals], self._names()))]

    def _names(self) -> list[str]:
        return [c.WINDOW_KEY, *self._keys, c.ARRIVAL]


class AdmitGroups(Operator):
    """The requests of a micro-batch in; the admitted ones out, when all requests are there. Passes rows on."""

    divided_by = (c.WINDOW_KEY,)

    def __init__(self, plan: AlignedPlan) -> None:
        super().__init__()
        assert plan.max_groups is not None
        self._plan = plan
        self._quota = GroupQuota(plan.max_groups, plan.key_names)
        self._requests: list[pa.RecordBatch] = []

    def on_requests(self, frame: GroupRequests) -> list[Frame]:
        self._requests.append(frame.batch)
        return []

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        admitted = self._admitted()
        windows = self._quota.windows()
        self._quota.forget(windows[self._plan.closed_for(windows, frame.us)])
        return [*admitted, *super().on_watermark(frame)]

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._admitted(), frame]

    def on_end(self) -> list[Frame]:
        return [*self._admitted(), ControlSignal.END]

    def _admitted(self) -> list[Frame]:
        """Decide on the requests, by the watermark before the micro-batch."""
        whole, self._requests = concat(self._requests), []
        if whole is not None and self.watermark_us is not None:
            whole = select(whole, ~self._plan.closed_for(int64s(whole, c.WINDOW_KEY), self.watermark_us))
        if whole is None or not whole.num_rows:
            return []
        return [AdmittedGroups(self._quota.admitted(whole))]

    def header(self) -> Header:
        return Header(tables=self._quota.tables())

    def save(self, entries: StateEntries) -> None:
        super().save(entries)
        self._quota.save(entries)

    def load(self, entries: StateEntries) -> None:
        self._quota.load(entries, self.read_header(entries).tables)

    def divided(self) -> tuple[Divisible, ...]:
        return self._quota.divided()

    def on_taken_over(self) -> None:
        self._quota.recount()


class QuotaAggregation(PartialAggregation):
    """Folds the rows of a micro-batch when it has heard which of their groups are admitted."""

    def __init__(self, plan: AlignedPlan, aggregator: Aggregator) -> None:
        assert plan.max_groups is not None
        self._decided = DecidedGroups(plan.max_groups, plan.key_names)
        super().__init__(plan, aggregator, self._decided)
        self._rows: list[Rows] = []

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._rows.append(frame)
        return []

    def on_admitted(self, frame: AdmittedGroups) -> list[Frame]:
        self._decided.add(frame.batch)
        return []

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        return [*self._folded(), *super().on_watermark(frame)]

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._folded(), frame]

    def on_end(self) -> list[Frame]:
        return [*self._folded(), ControlSignal.END]

    def _folded(self) -> list[Frame]:
        held, self._rows = self._rows, []
        folded = [made for frame in held for made in super(QuotaAggregation, self).on_rows(frame)]
        self._decided.clear()
        return folded
