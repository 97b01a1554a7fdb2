"""Intake, the first operator: separates bad and filtered rows from the rest, and reports progress in time.

For windows that judge rows one by one, LateGate follows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import Frame, Progress, Rows, SideRows, TriggerTimes, Watermark
from windowpane.core.operators.base import Operator
from windowpane.core.rows import Bools, Int64s, flags, int64s, select
from windowpane.core.side import Key
from windowpane.core.state import Header
from windowpane.core.windows.cut import Cut


@dataclass(frozen=True)
class _Counted:
    future_rows: int


class Intake(Operator):
    """Rows of the source in; good rows, side rows and the progress of the source partitions out.

    `max_future_skew_us`: rows further ahead of processing time do not move the watermark; they are counted, and still
    processed. `cut`: of a version of a query: it takes the rows within. Rows outside belong to another version, which
    accounts for them.
    """

    def __init__(
        self, keys: Collection[Key] = (), *, max_future_skew_us: int | None = None, cut: Cut | None = None
    ) -> None:
        super().__init__()
        self._keys, self._max_future_skew_us, self._cut = tuple(keys), max_future_skew_us, cut
        self.future_rows = 0
        self.latest_us: int | None = None
        """The largest event time so far, in this process."""
        self.skipped = 0
        """Rows of the source that only another version of the query takes."""

    def stand_alone(self) -> None:
        """The version before has ended: rows that would be its are late."""
        if self._cut is not None:
            self._cut = replace(self._cut, alone=True)

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        judged = (c.KEEP, c.UNMATCHED, c.ERROR, c.DETAIL, c.MADE)
        return pa.schema([field for field in given if field.name not in judged])

    def on_rows(self, frame: Rows) -> list[Frame]:
        frames: list[Frame] = [Progress(self._progress(frame.batch))]
        rows = self._without_bad(frame.batch, frames)
        return [*frames, Rows(rows)] if rows.num_rows else frames

    def _without_bad(self, batch: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        """Rows that are neither bad, unmatched nor filtered. Each of these needs a column; without it, no row is."""
        batch = batch if self._cut is None else self._of_this_version(self._cut, batch)
        self.counts.in_ += batch.num_rows
        if c.MADE in batch.schema.names:
            self.counts.made += int(flags(batch, c.MADE).sum())
            batch = batch.drop_columns([c.MADE])
        batch = self._without_errors(batch, frames) if c.ERROR in batch.schema.names else batch
        batch = self._without_unmatched(batch, frames) if c.UNMATCHED in batch.schema.names else batch
        if c.KEEP in batch.schema.names:
            kept = flags(batch, c.KEEP)
            self.counts.filtered += int(len(kept) - kept.sum())
            batch = select(batch, kept).drop_columns([c.KEEP])
        return batch if self._cut is None else self._without_too_late(self._cut, batch, frames)

    def _of_this_version(self, cut: Cut, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without rows that only another version takes. Rows without a time belong to the last version."""
        times = batch.column(c.EVENT_TIME)
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        ts: Int64s = times.fill_null(0).to_numpy(zero_copy_only=False)
        own = np.where(timed, cut.has(ts) | cut.too_late(ts), cut.until_us is None)
        if own.all():
            return batch
        read = ~flags(batch, c.MADE) if c.MADE in batch.schema.names else np.ones(len(ts), bool)
        self.skipped += int((read & ~own).sum())
        return select(batch, own)

    def _without_too_late(self, cut: Cut, batch: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        """Without rows of a version that has ended."""
        late = cut.too_late(int64s(batch, c.EVENT_TIME))
        if not late.any():
            return batch
        self.counts.late += int(late.sum())
        parted = side.side_batch(
            "late", side.LATE_WINDOW, select(batch, late), clock_us=self.clock_us, watermark_us=self.watermark_us,
            keys=self._keys,
        )  # fmt: skip
        frames.append(SideRows(parted))
        return select(batch, ~late)

    def _without_errors(self, batch: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        good = batch.column(c.ERROR).is_null().to_numpy(zero_copy_only=False)
        if not good.all():
            bad = select(batch, ~good)
            self.counts.error += bad.num_rows
            refused = side.side_batch(
                "error", bad.column(c.ERROR), bad, clock_us=self.clock_us, watermark_us=self.watermark_us,
                keys=self._keys, detail=bad.column(c.DETAIL),
            )  # fmt: skip
            frames.append(SideRows(refused))
            batch = select(batch, good)
        return batch.drop_columns([c.ERROR, c.DETAIL])

    def _without_unmatched(self, batch: pa.RecordBatch, frames: list[Frame]) -> pa.RecordBatch:
        unmatched = flags(batch, c.UNMATCHED)
        if unmatched.any():
            alone = select(batch, unmatched)
            self.counts.unmatched += alone.num_rows
            parted = side.side_batch(
                "unmatched", side.NO_PARTNER, alone, clock_us=self.clock_us, watermark_us=self.watermark_us,
                keys=self._keys,
            )  # fmt: skip
            frames.append(SideRows(parted))
            batch = select(batch, ~unmatched)
        return batch.drop_columns([c.UNMATCHED])

    def _progress(self, batch: pa.RecordBatch) -> dict[str, int | None]:
        """The largest event time per source partition, filtered and bad rows included, without rows too far ahead.

        A partition in which no row moves the watermark has None: it is not idle.
        """
        ts, moving = self._times(batch)
        partitions = batch.column(c.SOURCE_PARTITION)
        encoded = partitions if pa.types.is_dictionary(partitions.type) else partitions.dictionary_encode()
        if len(encoded.dictionary) == 1 and not encoded.null_count:
            mine = ts if moving is None else ts[moving]
            return {encoded.dictionary[0].as_py(): int(mine.max()) if len(mine) else None}
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        maxima: dict[str, int | None] = {}
        for code, partition in enumerate(encoded.dictionary.to_pylist()):
            of_partition = codes == code
            mine = ts[of_partition if moving is None else of_partition & moving]
            maxima[partition] = int(mine.max()) if len(mine) else None
        return maxima

    def _times(self, batch: pa.RecordBatch) -> tuple[Int64s, Bools | None]:
        """The rows' times, and which of them may move the watermark (None: all)."""
        column = batch.column(c.EVENT_TIME)
        moving = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        ts: Int64s = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
        known = ts if moving is None else ts[moving]
        if not len(known):
            return ts, moving
        latest_us = int(known.max())
        self.latest_us = latest_us if self.latest_us is None else max(latest_us, self.latest_us)
        if self._max_future_skew_us is None or latest_us - self.clock_us <= self._max_future_skew_us:
            return ts, moving
        far = ts - self.clock_us > self._max_future_skew_us
        if moving is not None:
            far &= moving
        self.future_rows += int(far.sum())
        return ts, ~far if moving is None else moving & ~far

    def header(self) -> Header:
        return Header.of(_Counted(self.future_rows))

    def load_header(self, header: Header) -> None:
        self.future_rows = header.read(_Counted).future_rows


class ProcessTimeIntake(Intake):
    """Processing time: a row's time is its micro-batch's timestamp. Nothing is ever late."""

    def on_rows(self, frame: Rows) -> list[Frame]:
        index = frame.batch.schema.get_field_index(c.EVENT_TIME)
        now = pa.array(np.full(frame.batch.num_rows, self.clock_us, np.int64))
        frames: list[Frame] = []
        rows = self._without_bad(frame.batch.set_column(index, c.EVENT_TIME, now), frames)
        return [*frames, Rows(rows)] if rows.num_rows else frames


class LateGate(Operator):
    """The row rule: a row with ts <= watermark is late, also if a window could still take it.

    It may run before a shuffle, so the host tells it the watermark before the micro-batch.
    """

    def __init__(self, keys: Collection[Key] = ()) -> None:
        super().__init__()
        self._keys = tuple(keys)

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self.watermark_us = frame.us if self.watermark_us is None else max(frame.us, self.watermark_us)
        return [frame]

    def on_rows(self, frame: Rows) -> list[Frame]:
        if self.watermark_us is None:
            return [frame]
        on_time = int64s(frame.batch, c.EVENT_TIME) > self.watermark_us
        if on_time.all():
            return [frame]
        late = select(frame.batch, ~on_time)
        self.counts.late += late.num_rows
        parted = side.side_batch(
            "late", side.LATE_ROW, late, clock_us=self.clock_us, watermark_us=self.watermark_us, keys=self._keys
        )
        return [SideRows(parted), *([Rows(select(frame.batch, on_time))] if on_time.any() else [])]

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        """Drop triggers of late rows. The rows are counted by the shard that has them."""
        if self.watermark_us is None:
            return [frame]
        return [TriggerTimes(select(frame.batch, int64s(frame.batch, c.EVENT_TIME) > self.watermark_us))]
