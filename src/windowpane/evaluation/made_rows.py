"""Which rows a join with static tables has made: all but the first of those with the same ORIGIN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.rows import flags


@dataclass
class MadeRows:
    """Goes over the batches of a task in order: rows of one origin may be in two of them."""

    _last: float = float("nan")
    """The origin of the last row. NaN is none, and equals no other."""

    def marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """MADE instead of ORIGIN, where the rows have one."""
        if c.ORIGIN not in batch.schema.names:
            return batch
        origins = batch.column(c.ORIGIN).to_numpy(zero_copy_only=False).astype(np.float64)
        before = np.concatenate([[self._last], origins])
        self._last = float(before[-1])
        made = before[1:] == before[:-1]
        batch = batch.drop_columns([c.ORIGIN])
        if c.MADE not in batch.schema.names:
            return batch.append_column(c.MADE, pa.array(made))
        at = batch.schema.get_field_index(c.MADE)
        return batch.set_column(at, c.MADE, pa.array(made | flags(batch, c.MADE)))
