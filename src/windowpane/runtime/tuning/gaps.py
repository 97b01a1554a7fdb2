"""Session gaps: how many sessions the rows of a sample make under each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import group_rows
from windowpane.core.rows import int64s

_FACTORS = (0.25, 0.5, 1, 2, 4)


@dataclass(frozen=True)
class GapEffect:
    """What one gap makes of the rows."""

    gap_us: int
    sessions: int
    rows_per_session: float
    mean_length_us: int
    """From the first to the last row of a session."""
    is_present: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def gap_effects(rows: Sequence[pa.RecordBatch], keys: Sequence[str], gap_us: int) -> list[GapEffect]:
    """Over all rows, whatever their lateness: what a batch would give."""
    whole = pa.Table.from_batches([each.select([c.EVENT_TIME, *keys]) for each in rows]).combine_chunks()
    if not whole.num_rows:
        return []
    batch = whole.to_batches()[0]
    ts = int64s(batch, c.EVENT_TIME)
    groups, _ = group_rows([batch.column(name) for name in keys], batch.num_rows)
    order = np.lexsort((ts, groups.ids))
    ids, times = groups.ids[order], ts[order]
    same, steps = ids[1:] == ids[:-1], np.diff(times)
    found = []
    for us in sorted({max(1, round(gap_us * factor)) for factor in _FACTORS}):
        joins = same & (steps < us)
        sessions = len(times) - int(joins.sum())
        found.append(
            GapEffect(us, sessions, round(len(times) / sessions, 2), int(steps[joins].sum() // sessions), us == gap_us)
        )
    return found
