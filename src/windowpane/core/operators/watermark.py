"""The watermark operators: move time once per micro-batch, and release rows in order for operators that need it.

Rows are released before the watermark that covers them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Frame, Progress, Rows, TriggerTimes, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import RowBuffer, in_time_order, int64s, select
from windowpane.core.state import Header
from windowpane.core.watermark import PartitionWatermark


@dataclass(frozen=True)
class _Progress:
    maxima: dict[str, int]
    last_seen: dict[str, int]
    watermarks_emitted: int


class EventtimeWatermark(Operator):
    """Event time inferred from the progress of the source partitions.

    `ordered`: rows are held back and released by (ts, arrival) once the watermark covers them; after Watermark(W) no
    row with ts <= W is released. `data_driven` False: only Watermark frames from upstream move it.
    """

    moves_time = True

    def __init__(
        self,
        *,
        lag_us: int = 0,
        streams: Collection[str] = (),
        idle_timeout_us: int | None = None,
        ordered: bool = False,
        data_driven: bool = True,
    ) -> None:
        super().__init__()
        self.tracker = PartitionWatermark(lag_us, tuple(streams), idle_timeout_us)
        self.ordered, self.data_driven = ordered, data_driven
        self.watermarks_emitted = 0
        self._held, self._held_triggers = RowBuffer(), RowBuffer()
        self._asked_us: int | None = None

    def on_clock(self, frame: Clock) -> list[Frame]:
        self.tracker.begin(frame.us)
        return super().on_clock(frame)

    def on_progress(self, frame: Progress) -> list[Frame]:
        self.tracker.observe(frame.maxima, self.clock_us)
        return []

    def on_rows(self, frame: Rows) -> list[Frame]:
        if not self.ordered:
            return [frame]
        self._held.append(frame.batch)
        return []

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        if not self.ordered:
            return [frame]
        self._held_triggers.append(frame.batch)
        return []

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self._asked_us = frame.us if self._asked_us is None else max(frame.us, self._asked_us)
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        target = self.tracker.advance(self.clock_us) if self.data_driven else self.watermark_us
        if self._asked_us is not None:
            target = self._asked_us if target is None else max(target, self._asked_us)
            self._asked_us = None
        if target is None or (self.watermark_us is not None and target <= self.watermark_us):
            return [frame]
        self.watermark_us = self.tracker.watermark_us = target
        self.watermarks_emitted += 1
        return [*self._release(target), Watermark(target), frame]

    def on_end(self) -> list[Frame]:
        return [*self._release(None), ControlSignal.END]

    def buffered(self) -> int:
        return len(self._held)

    def _release(self, target_us: int | None) -> list[Frame]:
        """Rows and triggers up to an instant, in order; all of them for None."""
        rows, triggers = _taken(self._held, target_us), _taken(self._held_triggers, target_us)
        released: list[Frame] = [] if rows is None else [Rows(rows)]
        return released if triggers is None else [*released, TriggerTimes(triggers)]

    def header(self) -> Header:
        progress = _Progress(self.tracker.maxima, self.tracker.last_seen, self.watermarks_emitted)
        return Header.of(progress, self._held.tables("held") | self._held_triggers.tables("held_triggers"))

    def load_header(self, header: Header) -> None:
        progress = header.read(_Progress)
        self.tracker.watermark_us = self.watermark_us
        self.tracker.maxima, self.tracker.last_seen = dict(progress.maxima), dict(progress.last_seen)
        self.watermarks_emitted = progress.watermarks_emitted
        self._held.replace(header.tables.get("held"))
        self._held_triggers.replace(header.tables.get("held_triggers"))


def _taken(buffer: RowBuffer, until_us: int | None) -> pa.RecordBatch | None:
    """Take what is due out of a buffer, by (ts, arrival)."""
    held = buffer.rows()
    if held is None:
        return None
    due = int64s(held, c.EVENT_TIME) <= until_us if until_us is not None else np.ones(held.num_rows, bool)
    buffer.replace(select(held, ~due))
    return in_time_order(select(held, due)) if due.any() else None


class ProcessTimeWatermark(Operator):
    """Processing time: the watermark is the micro-batch's timestamp."""

    moves_time = True

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        if self.watermark_us is not None and self.clock_us <= self.watermark_us:
            return [frame]
        self.watermark_us = self.clock_us
        return [Watermark(self.clock_us), frame]
