"""From the rows of a source to the columns of a projection, with their time and why a row cannot be evaluated.

The scan runs it in workers over what it has read, the harness over what is pushed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.side import DECODE
from windowpane.evaluation.common_values import CommonValues
from windowpane.evaluation.event_times import EventTimes, unreadable, whole_column
from windowpane.evaluation.expressions import Columns, Computed, evaluate
from windowpane.evaluation.reasons import blame


@dataclass(frozen=True)
class Projection:
    """Picklable. Types are those of Spark, in Arrow."""

    times: EventTimes | None
    """None: rows have the time of their micro-batch, or the one that they came with."""
    plain: tuple[tuple[str, str], ...]
    """Columns that are columns of the source, with their names there."""
    computed: tuple[tuple[str, Computed], ...]
    """Of those that fail on a row the first is to blame."""
    where: str | None
    """The column that says whether a row is kept."""
    constants: tuple[tuple[str, pa.Scalar], ...] = ()
    """Columns that have the same value in all rows."""
    carried: tuple[str, ...] = (c.SOURCE_PARTITION,)
    """Columns of the source that go along, where it has them."""
    continued: bool = False
    """The source is rows with their times, which may have errors and may not be kept already."""

    def definitions(self) -> dict[str, object]:
        """What each column is. Columns of two projections over the same source with equal ones have equal values."""
        return {
            **{name: ("column", column) for name, column in self.plain},
            **dict(self.computed),
            **{name: ("constant", value) for name, value in self.constants},
        }

    def rows(
        self, source: pa.RecordBatch | pa.Table, clock_us: int, common: CommonValues | None = None
    ) -> pa.RecordBatch:
        """Rows as operators take them. CORRUPT of `source` is the text of what could not be read.

        `common`: what other projections over the same rows compute too.
        """
        columns = self._times(source, clock_us, common)
        columns |= {name: whole_column(source, column) for name, column in self.plain}
        columns |= {name: pa.repeat(value, source.num_rows) for name, value in self.constants}
        reasons, details = [], [unreadable(source)]
        if details[0].null_count < source.num_rows:
            reasons.append(pc.if_else(details[0].is_valid(), DECODE, pa.scalar(None, pa.string())))
        if c.ERROR in columns:
            reasons.append(columns.pop(c.ERROR))
            details.append(columns.pop(c.DETAIL))
        items = dict(self.computed)
        values, failed = evaluate(items, source) if common is None else common.computed(items)
        columns |= values
        if any(each.fails for _, each in self.computed):
            reason, detail = blame(failed, items, source)
            reasons.append(self._where_kept(source, reason))
            details.append(detail)
        if reasons:
            columns[c.ERROR] = pc.coalesce(*reasons) if len(reasons) > 1 else reasons[0]
            columns[c.DETAIL] = pc.if_else(
                columns[c.ERROR].is_valid(), pc.coalesce(*details), pa.scalar(None, pa.string())
            )
        columns |= self._kept(source, columns)
        columns |= {name: whole_column(source, name) for name in self.carried if name in source.schema.names}
        return pa.RecordBatch.from_pydict(columns)

    def _times(self, source: pa.RecordBatch | pa.Table, clock_us: int, common: CommonValues | None) -> Columns:
        if self.continued:
            names = (c.EVENT_TIME, c.TIME_SOURCE, c.ERROR, c.DETAIL)
            return {name: whole_column(source, name) for name in names if name in source.schema.names}
        if self.times is None:
            return {c.EVENT_TIME: pa.array(np.full(source.num_rows, clock_us, np.int64))}
        return self.times.resolve(source, clock_us) if common is None else common.times(self.times)

    def _where_kept(self, source: pa.RecordBatch | pa.Table, reason: pa.Array) -> pa.Array:
        """Nothing is evaluated for a row that was dropped before."""
        if not self.continued or c.KEEP not in source.schema.names:
            return reason
        kept = pc.fill_null(whole_column(source, c.KEEP), False)
        return pc.if_else(kept, reason, pa.scalar(None, pa.string()))

    def _kept(self, source: pa.RecordBatch | pa.Table, columns: Columns) -> Columns:
        flags = [columns[self.where]] if self.where is not None else []
        if self.continued and c.KEEP in source.schema.names:
            flags.append(whole_column(source, c.KEEP))
        known = [pc.fill_null(flag, False) for flag in flags]
        return {c.KEEP: known[0] if len(known) == 1 else pc.and_(*known)} if known else {}
