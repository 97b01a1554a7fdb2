"""Rows that several shards have released, put back into order: the first operator behind a shuffle of released rows."""

from __future__ import annotations

from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, TriggerTimes, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import RowBuffer, in_time_order


class TimeOrder(Operator):
    """Gives the rows of a micro-batch by (ts, arrival), before the watermark that covers them.

    Rows of a later micro-batch are later than that watermark, so no row is kept over micro-batches.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows, self._triggers = RowBuffer(), RowBuffer()

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._rows.append(frame.batch)
        return []

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        self._triggers.append(frame.batch)
        return []

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        return [*self._ordered(), *super().on_watermark(frame)]

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        return [*self._ordered(), frame]

    def on_end(self) -> list[Frame]:
        return [*self._ordered(), ControlSignal.END]

    def _ordered(self) -> list[Frame]:
        rows, triggers = self._rows.rows(), self._triggers.rows()
        self._rows.replace(None)
        self._triggers.replace(None)
        ordered: list[Frame] = [] if rows is None else [Rows(in_time_order(rows))]
        return ordered if triggers is None else [*ordered, TriggerTimes(in_time_order(triggers))]
