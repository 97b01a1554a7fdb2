"""One task's rows on their way through the fold operators, up to the messages for the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.frames import Clock, Frame, Given, Rows, Watermark
from windowpane.core.lateness import LatenessJudge, LatenessSketch
from windowpane.core.numbering import NOWHERE, Numbers, Portion
from windowpane.core.operators.intake import Intake
from windowpane.core.side import DECODE
from windowpane.core.wire import StageMessage
from windowpane.evaluation.made_rows import MadeRows
from windowpane.scan.original_events import with_events
from windowpane.scan.scan import Scanned
from windowpane.spark.batch_context import BatchContext, task_batch_id
from windowpane.spark.stages import SENT, Stages, sent_rows
from windowpane.spark.timings import PACK, in_shares, timed

CLOCK = "_clock"
"""The micro-batch's timestamp as a column, if there is no feedback from the driver."""
FUTURE, REINJECTED, NUMBERED, TIMES = "future_rows", "reinjected", "numbered", "time."
"""Names of tallies: rows too far ahead, reinjected rows, numbered rows, and the prefix of counts by time source."""
REPLAYED = "replayed"
"""The tally of side rows that are read once more because somebody asked for it."""
OUTSIDE = "outside"
"""The tally of rows outside the range of time that a backfill reads."""
SKIPPED = "skipped"
"""The tally of rows that only another version of the query takes."""


class Fold:
    """One task's rows through the fold operators of a transform, or of several that are alike."""

    def __init__(self, stages: Stages, tags: tuple[str, ...], context: BatchContext | None) -> None:
        self.tags, self._stages, self._context = tags, stages, context
        self._graph = stages.fold()
        if context is not None and tags[0] in context.alone:
            for intake in self._intakes():
                intake.stand_alone()
        self.clock_us: int | None = None
        self.portions: list[Portion] = []
        self._sources: Counter[str] = Counter()
        self._reinjected = self._outside = 0
        self._made = MadeRows()
        self._lateness = {tag: LatenessSketch() for tag, _ in self.judges()}
        self.spent: Counter[str] = Counter()

    def add(self, chunk: Scanned) -> None:
        """Fold rows."""
        batch, source = self._made.marked(chunk.rows), chunk.source
        place = chunk.place if self._stages.ordered else NOWHERE
        if not self.portions or self.portions[-1].place != place:
            self.portions.append(Portion(place))
        if self.clock_us is None:
            self._begin(batch)
        fresh = batch
        if c.REINJECTIONS in batch.schema.names:
            fresh = batch.filter(batch.column(c.REINJECTIONS).is_null())
            self._reinjected += batch.num_rows - fresh.num_rows
        self._sources.update(count_time_sources(fresh, self._stages.time_source))
        if self._stages.clock_fallback and batch.column(c.EVENT_TIME).null_count:
            batch = self._with_clock(batch, fresh)
        inside = self._stages.rows_in.rows(batch)
        self._outside += batch.num_rows - inside.num_rows
        batch = inside
        beside = [name for name in (CLOCK, c.TIME_SOURCE) if name in batch.schema.names]
        rows = batch.drop_columns(beside) if beside else batch
        portion = self.portions[-1]
        complete = self._stages.complete_rows(rows, portion.rows)
        for tag, judge in self.judges():
            assert self._context is not None, "tasks know the watermark where rows are judged"
            self._lateness[tag].observe(complete, judge, self._context.watermark_us(tag))
        frames = self._given(Rows(complete))
        portion.frames += frames if source is None else [Given(at, with_events(frame, source)) for at, frame in frames]
        portion.rows += batch.num_rows

    def judges(self) -> list[tuple[str, LatenessJudge]]:
        """How the rows are judged, by the tag of the transform; one of those that are alike stands for all."""
        judge = self._stages.judge
        return [] if judge is None or self._context is None else [(self.tags[0], judge)]

    def _with_clock(self, batch: pa.RecordBatch, fresh: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without a time get that of the batch. Unreadable records do not: they would move the watermark."""
        self._sources["processing_time"] += pc.sum(_lacks_time(fresh)).as_py() or 0
        times = pc.if_else(_lacks_time(batch), pa.scalar(self.clock_us, pa.int64()), batch.column(c.EVENT_TIME))
        return batch.set_column(batch.schema.get_field_index(c.EVENT_TIME), c.EVENT_TIME, times)

    def _begin(self, batch: pa.RecordBatch) -> None:
        self.clock_us = self._context.clock_us if self._context else int(batch.column(CLOCK)[0].as_py())
        self.portions[-1].frames += self._given(Clock(self.clock_us))
        watermark_us = self._context.watermark_us(self.tags[0]) if self._context else None
        if watermark_us is not None:
            self.portions[-1].frames += self._given(Watermark(watermark_us))

    def messages(self, task: int) -> dict[str, list[bytes]]:
        """Once all rows are folded: a message for each shard, by tag. Equal ones are the same object."""
        return dict.fromkeys(self.tags, self.packed(self._stages, self.tags[0], self.portions, self.counts, task))

    def packed(
        self, stages: Stages, tag: str, portions: Sequence[Portion], counts: Accounting, task: int
    ) -> list[bytes]:
        """The messages of a transform."""
        assert self.clock_us is not None, "nothing was added"
        numbers = self._context.numbers(tag) if self._context else Numbers.of_batch(task_batch_id())
        home = task % stages.shards
        with timed(self.spent, PACK):
            routed = stages.route_portions(portions, 1, home)
        tallies = self.tallies() | {f"{SENT}1": sent_rows(routed)}
        if tag in self._lateness:
            tallies |= self._lateness[tag].tallies()
        return [
            StageMessage(
                parts, self.clock_us, numbers, counts=counts if shard == home else Accounting(),
                tallies=tallies if shard == home else {}, latest_us=self._latest_us(),
            ).pack()
            for shard, parts in enumerate(routed)
        ]  # fmt: skip

    def _given(self, frame: Frame) -> list[Given]:
        (entry,) = self._graph.entries
        given = self._graph.feed(entry, [frame])
        return [each for each in given if not isinstance(each.frame, Clock | Watermark)]

    def _latest_us(self) -> int | None:
        return max((intake.latest_us for intake in self._intakes() if intake.latest_us is not None), default=None)

    def _intakes(self) -> list[Intake]:
        return [operator for operator in self._graph.operators if isinstance(operator, Intake)]

    @property
    def counts(self) -> Accounting:
        return sum((operator.counts for operator in self._graph.operators), Accounting())

    def tallies(self) -> dict[str, int]:
        """Counts beside the accounting."""
        future = sum(intake.future_rows for intake in self._intakes())
        skipped = sum(intake.skipped for intake in self._intakes())
        times = {f"{TIMES}{source}": count for source, count in self._sources.items()}
        rows = sum(portion.rows for portion in self.portions)
        counts = {FUTURE: future, REINJECTED: self._reinjected, NUMBERED: rows, OUTSIDE: self._outside}
        counts |= {SKIPPED: skipped} if skipped else {}
        return counts | times | in_shares(self.spent, len(self.tags))[-1]


def _lacks_time(batch: pa.RecordBatch) -> pa.Array:
    lacking = batch.column(c.EVENT_TIME).is_null()
    if c.ERROR not in batch.schema.names:
        return lacking
    return pc.and_(lacking, pc.fill_null(pc.not_equal(batch.column(c.ERROR), DECODE), fill_value=True))


def count_time_sources(batch: pa.RecordBatch, source: str | None) -> dict[str, int]:
    """Rows by the source of their time. `source`: the only one that is possible."""
    if source is not None:
        return {source: batch.num_rows - batch.column(c.EVENT_TIME).null_count}
    codes = batch.column(c.TIME_SOURCE).drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(c.TIME_SOURCES)).tolist()
    return {name: count for name, count in zip(c.TIME_SOURCES, counts, strict=True) if count}
