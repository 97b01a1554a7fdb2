"""Intake: the first operator. Tells bad, filtered and (by the row rule) late rows apart, and reports progress.

It stands on the near side of a shuffle, and so learns the watermark before the micro-batch from its host.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from windowpane.core import blob, side
from windowpane.core import columns as c
from windowpane.core.frames import Frame, Progress, Rows, SideRows, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import flags, int64s, select
from windowpane.core.side import Key


class Intake(Operator):
    """Rows as the source gives them in, rows that can be worked with out.

    `row_rule`: rows with ts <= watermark are late here, also if a window could still take them. `max_future_skew_us`:
    rows further ahead of processing time do not move the watermark; they are counted, and still processed.
    """

    def __init__(
        self, keys: Collection[Key] = (), *, row_rule: bool = False, max_future_skew_us: int | None = None
    ) -> None:
        super().__init__()
        self._keys, self._row_rule, self._max_future_skew_us = tuple(keys), row_rule, max_future_skew_us
        self.future_rows = 0

    def on_rows(self, frame: Rows) -> list[Frame]:
        frames: list[Frame] = [Progress(self._progress(frame.batch))]
        rows = self._part_bad(frame.batch, frames)
        if self._row_rule:
            rows = self._part_late(rows, frames)
        return [*frames, Rows(rows)] if rows.num_rows else frames

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self.watermark_us = frame.us if self.watermark_us is None else max(frame.us, self.watermark_us)
        return [frame]

    def _part_bad(self, batch: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        self.counts.in_ += batch.num_rows
        good = batch.column(c.ERROR).is_null().to_numpy(zero_copy_only=False)
        if not good.all():
            bad = select(batch, ~good)
            self.counts.error += bad.num_rows
            frames.append(self._side("error", bad.column(c.ERROR), bad, bad.column(c.DETAIL)))
            batch = select(batch, good)
        kept = flags(batch, c.KEEP)
        self.counts.filtered += int(len(kept) - kept.sum())
        return select(batch, kept).drop_columns([c.ERROR, c.DETAIL, c.KEEP])

    def _part_late(self, rows: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        if self.watermark_us is None:
            return rows
        on_time = int64s(rows, c.TS) > self.watermark_us
        if not on_time.all():
            late = select(rows, ~on_time)
            self.counts.late += late.num_rows
            frames.append(self._side("late", side.LATE_ROW, late, None))
        return select(rows, on_time)

    def _side(self, kind: str, reason: str | pa.Array, rows: pa.RecordBatch, detail: pa.Array | None) -> SideRows:
        batch = side.side_batch(
            kind, reason, rows, clock_us=self.clock_us, watermark_us=self.watermark_us, keys=self._keys, detail=detail
        )
        return SideRows(batch)

    def _progress(self, batch: pa.RecordBatch) -> dict[str, int | None]:
        """Every row with a time moves its shard's maximum, filtered and bad ones too, unless it lies too far ahead."""
        timed = batch.filter(batch.column(c.TS).is_valid()) if batch.column(c.TS).null_count else batch
        ts = int64s(timed, c.TS)
        moving = None
        if (
            self._max_future_skew_us is not None
            and len(ts)
            and int(ts.max()) - self.clock_us > self._max_future_skew_us
        ):
            moving = ts - self.clock_us <= self._max_future_skew_us
            self.future_rows += int(len(ts) - moving.sum())
        shards = timed.column(c.SHARD)
        encoded = shards if pa.types.is_dictionary(shards.type) else shards.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        maxima: dict[str, int | None] = {}
        for code, shard in enumerate(encoded.dictionary.to_pylist()):
            of_shard = codes == code
            mine = ts[of_shard if moving is None else of_shard & moving]
            maxima[shard] = int(mine.max()) if len(mine) else None
        return maxima

    def state(self) -> blob.State:
        return blob.State({"future_rows": self.future_rows})

    def load(self, state: blob.State) -> None:
        self.future_rows = int(str(state.meta["future_rows"]))


class ProcessTimeIntake(Intake):
    """Processing time: a row's time is its micro-batch's timestamp. Nothing is ever late."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        index = frame.batch.schema.get_field_index(c.TS)
        now = pa.array(np.full(frame.batch.num_rows, self.clock_us, np.int64))
        frames: list[Frame] = []
        rows = self._part_bad(frame.batch.set_column(index, c.TS, now), frames)
        return [*frames, Rows(rows)] if rows.num_rows else frames
