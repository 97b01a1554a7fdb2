"""What both halves of aggregation over sessions share: the plan, and the columns of a session's state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.closing import closing_us
from windowpane.core.side import Key
from windowpane.core.windows.session import Segments, Session

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEADING = [c.SESSION_START, c.SESSION_LAST]


@dataclass(frozen=True)
class SessionPlan:
    """What both halves must agree on."""

    spec: Session
    keys: tuple[Key, ...]
    allowed_lateness_us: int = 0
    closed_until_us: int | None = None
    """As of `AlignedPlan`."""

    @property
    def gap_us(self) -> int:
        return self.spec.gap_us

    @property
    def key_names(self) -> list[str]:
        return [key.name for key in self.keys]

    def closed_for(self, last: Int64s, watermark_us: int | None) -> Bools:
        """Which sessions, by their last instant, the watermark has closed."""
        if watermark_us is None:
            return np.zeros(len(last), bool)
        return self.spec.closed_for(last, closing_us(watermark_us, self.allowed_lateness_us, self.closed_until_us))

    def grouped(self, rows: pa.RecordBatch) -> tuple[Groups, Int64s]:
        return group_rows([rows.column(name) for name in self.key_names], rows.num_rows)


def fold_sessions(aggregator: Aggregator, rows: pa.RecordBatch, found: Segments) -> pa.RecordBatch:
    """Rows to one state per session."""
    heads = [pa.array(found.first), pa.array(found.last)]
    heads += [rows.column(key).take(pa.array(any_member(found.groups))) for key in aggregator.keys]
    return aggregator.fold_groups(rows, found.groups, heads, LEADING)


def any_member(groups: Groups) -> Int64s:
    """Some element of each group."""
    members = np.zeros(groups.count, np.int64)
    members[groups.ids] = np.arange(len(groups.ids))
    return members
