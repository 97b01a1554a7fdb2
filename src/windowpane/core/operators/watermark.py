"""The watermark stage: takes rows in, tells errors and filtered rows apart, moves time, and releases rows in order
for operators that need it. Rows go first, then the watermark that covers them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from windowpane.core import blob, side
from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Frame, Rows, SideRows, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import RowBuffer, flags, in_time_order, int64s, select
from windowpane.core.side import Key
from windowpane.core.watermark import ShardWatermark


class _Intake(Operator):
    """What both time modes share: error rows leave, filtered rows are counted, the rest goes on."""

    def __init__(self, keys: Collection[Key] = ()) -> None:
        super().__init__()
        self.keys = tuple(keys)

    def take_in(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Frame]]:
        """The rows that go on, and the side rows of those that cannot."""
        frames: list[Frame] = []
        self.counts.in_ += batch.num_rows
        good = batch.column(c.ERROR).is_null().to_numpy(zero_copy_only=False)
        if not good.all():
            bad = select(batch, ~good)
            self.counts.error += bad.num_rows
            frames.append(SideRows(self._side("error", bad.column(c.ERROR), bad, bad.column(c.DETAIL))))
            batch = select(batch, good)
        kept = flags(batch, c.KEEP)
        self.counts.filtered += int(len(kept) - kept.sum())
        return select(batch, kept).drop_columns([c.ERROR, c.DETAIL, c.KEEP]), frames

    def _side(self, kind: str, reason: str | pa.Array, rows: pa.RecordBatch, detail: pa.Array | None) -> pa.RecordBatch:
        return side.side_batch(
            kind, reason, rows, clock_us=self.clock_us, watermark_us=self.watermark_us, keys=self.keys, detail=detail
        )


class EventtimeWatermark(_Intake):
    """Event time inferred from the rows. All rows of a micro-batch are judged against the watermark before it.

    `ordered`: rows are held back and released by (ts, arrival) once the watermark covers them; after Watermark(W) no row
    with ts <= W is released. `row_rule`: rows with ts <= watermark are late here, also if a window could still take them.
    `data_driven` False: only Watermark frames from upstream move it.
    """

    def __init__(
        self,
        *,
        lag_us: int = 0,
        streams: Collection[str] = (),
        idle_timeout_us: int | None = None,
        max_future_skew_us: int | None = None,
        ordered: bool = False,
        row_rule: bool = False,
        data_driven: bool = True,
        keys: Collection[Key] = (),
    ) -> None:
        super().__init__(keys)
        self.tracker = ShardWatermark(lag_us, tuple(streams), idle_timeout_us)
        self.max_future_skew_us = max_future_skew_us
        self.ordered, self.row_rule, self.data_driven = ordered, row_rule, data_driven
        self.future_rows = 0
        self.watermarks_emitted = 0
        self._held = RowBuffer()
        self._asked_us: int | None = None

    def on_clock(self, frame: Clock) -> list[Frame]:
        self.tracker.begin(frame.us)
        return super().on_clock(frame)

    def on_rows(self, frame: Rows) -> list[Frame]:
        self._observe(frame.batch)
        rows, frames = self.take_in(frame.batch)
        if self.watermark_us is not None and (self.ordered or self.row_rule):
            rows = self._part_late(rows, self.watermark_us, frames)
        if self.ordered:
            self._held.append(rows)
        elif rows.num_rows:
            frames.append(Rows(rows))
        return frames

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
        rest, frames = self._held.rows(), list[Frame]()
        if rest is not None:
            frames.append(Rows(in_time_order(rest)))
        self._held.replace(None)
        return [*frames, ControlSignal.END]

    def buffered(self) -> int:
        return len(self._held)

    def _observe(self, batch: pa.RecordBatch) -> None:
        """Every row with a time moves its shard's maximum, filtered and bad ones too, unless it lies too far ahead."""
        timed = batch.filter(batch.column(c.TS).is_valid())
        ts = int64s(timed, c.TS)
        moving = np.ones(len(ts), bool)
        if self.max_future_skew_us is not None:
            moving = ts - self.clock_us <= self.max_future_skew_us
            self.future_rows += int(len(ts) - moving.sum())
        shards = timed.column(c.SHARD)
        encoded = shards if pa.types.is_dictionary(shards.type) else shards.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        maxima: dict[str, int | None] = {}
        for code, shard in enumerate(encoded.dictionary.to_pylist()):
            mine = ts[moving & (codes == code)]
            maxima[shard] = int(mine.max()) if len(mine) else None
        self.tracker.observe(maxima, self.clock_us)

    def _part_late(self, rows: pa.RecordBatch, watermark_us: int, frames: list[Frame]) -> pa.RecordBatch:
        on_time = int64s(rows, c.TS) > watermark_us
        if not on_time.all():
            late = select(rows, ~on_time)
            self.counts.late += late.num_rows
            frames.append(SideRows(self._side("late", side.LATE_ROW, late, None)))
        return select(rows, on_time)

    def _release(self, target_us: int) -> list[Frame]:
        held = self._held.rows()
        if held is None:
            return []
        due = int64s(held, c.TS) <= target_us
        self._held.replace(select(held, ~due))
        return [Rows(in_time_order(select(held, due)))] if due.any() else []

    def state(self) -> blob.State:
        meta = {
            "maxima": self.tracker.maxima,
            "last_seen": self.tracker.last_seen,
            "future_rows": self.future_rows,
            "watermarks_emitted": self.watermarks_emitted,
        }
        return blob.State(meta, self._held.batches("held"))

    def load(self, state: blob.State) -> None:
        meta = state.meta
        self.tracker.watermark_us = self.watermark_us
        self.tracker.maxima = dict(meta["maxima"])  # type: ignore[call-overload]  # JSON object
        self.tracker.last_seen = dict(meta["last_seen"])  # type: ignore[call-overload]
        self.future_rows = int(str(meta["future_rows"]))
        self.watermarks_emitted = int(str(meta["watermarks_emitted"]))
        self._held.replace(state.batches.get("held"))


class ProcessTimeWatermark(_Intake):
    """Processing time: a row's time is its micro-batch's timestamp, and so is the watermark. Nothing is ever late."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        index = frame.batch.schema.get_field_index(c.TS)
        now = pa.repeat(pa.scalar(self.clock_us, pa.int64()), frame.batch.num_rows)
        rows, frames = self.take_in(frame.batch.set_column(index, c.TS, now))
        return [*frames, Rows(rows)] if rows.num_rows else frames

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        if self.watermark_us is not None and self.clock_us <= self.watermark_us:
            return [frame]
        self.watermark_us = self.clock_us
        return [Watermark(self.clock_us), frame]
