"""A range of event time, from an instant to just before another one."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c


@dataclass(frozen=True)
class TimeRange:
    """[from_us, to_us). None: there is no bound."""

    from_us: int | None = None
    to_us: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.from_us is not None or self.to_us is not None

    def mask(self, times: pa.Array) -> pa.Array:
        """Which of these int64 instants lie in the range. Those that are NULL count as inside."""
        inside = pa.repeat(pa.scalar(True), len(times))
        if self.from_us is not None:
            inside = pc.and_(inside, pc.greater_equal(times, pa.scalar(self.from_us, pa.int64())))
        if self.to_us is not None:
            inside = pc.and_(inside, pc.less(times, pa.scalar(self.to_us, pa.int64())))
        return pc.fill_null(inside, fill_value=True)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose event time lies in the range, and those that have none."""
        return self._of(batch, c.EVENT_TIME)

    def results(self, emitted: pa.RecordBatch) -> pa.RecordBatch:
        """The results of windows that start in the range. A sliding window counts by its trigger's time, a result
        without a window by its event time.
        """
        names = emitted.schema.names
        return self._of(emitted, next(name for name in (c.TRIGGER, c.WINDOW_START, c.EVENT_TIME) if name in names))

    def _of(self, batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
        return batch.filter(self.mask(batch.column(column))) if self.is_bounded else batch


ALWAYS = TimeRange()
"""No bounds."""
