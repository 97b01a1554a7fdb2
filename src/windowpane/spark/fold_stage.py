"""The fold stage, run by mapInArrow in every task of the source: rows in, one packed row per shard out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.accounting import Accounting
from windowpane.core.frames import Clock, Frame, Given, Rows, Watermark
from windowpane.core.numbering import NOWHERE, Numbers, Portion
from windowpane.core.operators.intake import Intake
from windowpane.core.rows import in_chunks
from windowpane.core.side import DECODE
from windowpane.core.wire import StageMessage
from windowpane.evaluation.made_rows import MadeRows
from windowpane.scan.file_boundaries import by_place
from windowpane.scan.original_events import with_events
from windowpane.scan.scan import Scanned
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.batch_context import BatchContext, task_batch_id, task_context
from windowpane.spark.job_stages import JobStages
from windowpane.spark.stages import MESSAGE, SENT, Stages, sent_rows
from windowpane.spark.timings import FOLD, PACK, SOURCE, in_shares, timed, timed_items
from windowpane.spark.worker_garbage import freeze_loaded

CLOCK = "_clock"
"""The micro-batch's timestamp as a column, if there is no feedback from the driver."""
FUTURE, REINJECTED, NUMBERED, TIMES = "future_rows", "reinjected", "numbered", "time."
"""Names of tallies: rows too far ahead, reinjected rows, numbered rows, and the prefix of counts by time source."""
OUTSIDE = "outside"
"""The tally of rows outside the range of time that a backfill reads."""


@dataclass(frozen=True)
class FoldStage:
    """Picklable: mapInArrow calls `run` in the workers. `shard_ids` are keys that spread over the partitions."""

    job: JobStages
    """The transforms that read this input."""
    shard_ids: tuple[int, ...]
    scan: SharedScan | None = None
    """Reads the input if that is a list of files, or undecoded records."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BatchContext.of_task() if self.job.feedback else None
        folds = {tags: Fold(self.job.members[tags[0]], tags, context) for tags in self._alike(context)}
        spent: Counter[str] = Counter()
        for chunks in timed_items(self._read(batches, context), spent, SOURCE):
            for tags, fold in folds.items():
                with timed(fold.spent, FOLD):
                    fold.add(chunks[tags[0]])
        for fold, share in zip(folds.values(), in_shares(spent, len(folds)), strict=True):
            fold.spent.update(share)
        if all(fold.clock_us is not None for fold in folds.values()):
            task = task_context().partitionId()
            yield packed_batch(self.shard_ids, task, packed_messages(self.job, folds, task))
        freeze_loaded()

    def _alike(self, context: BatchContext | None) -> list[tuple[str, ...]]:
        """The tags of the transforms, together if they make the same messages of the same rows."""
        found: list[tuple[tuple[object, ...], list[str]]] = []
        for tag, stages in self.job.members.items():
            scan, before = self.scan.scans[tag] if self.scan else None, context.before[tag] if context else None
            key = (scan, before, *stages.fold_identity())
            alike = next((tags for known, tags in found if known == key), None)
            if alike is None:
                found.append((key, [tag]))
            else:
                alike.append(tag)
        return [tuple(tags) for _, tags in found]

    def _read(self, batches: Iterator[pa.RecordBatch], context: BatchContext | None) -> Iterator[Mapping[str, Scanned]]:
        """The rows of each transform, by tag."""
        if self.scan and context:
            return self.scan.read(batches, context.clock_us)
        return (dict.fromkeys(self.job.members, chunk) for chunk in by_place(in_chunks(batches)))


def packed_messages(job: JobStages, folds: Mapping[tuple[str, ...], Fold], task: int) -> list[bytes]:
    """What a task sends to each shard. `folds`: by the tags of their transforms."""
    packed = {tags: fold.packed(task) for tags, fold in folds.items()}
    sent = {tag: payloads for tags, payloads in packed.items() for tag in tags}
    return [job.pack({tag: payloads[shard] for tag, payloads in sent.items()}) for shard in range(job.shards)]


def packed_batch(shard_ids: tuple[int, ...], origin: int, payloads: list[bytes]) -> pa.RecordBatch:
    """What one task sends: a payload for each shard."""
    columns = [
        pa.array(shard_ids, pa.int32()),
        pa.array([origin] * len(payloads), pa.int32()),
        pa.array([MESSAGE] * len(payloads), pa.string()),
        pa.array(payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["shard", "origin", "kind", "payload"])


class Fold:
    """One task's rows through the fold operators of a transform, or of several that are alike."""

    def __init__(self, stages: Stages, tags: tuple[str, ...], context: BatchContext | None) -> None:
        self._stages, self._tag, self._context, self._shared_by = stages, tags[0], context, len(tags)
        self._graph = stages.fold()
        self.clock_us: int | None = None
        self.portions: list[Portion] = []
        self._sources: Counter[str] = Counter()
        self._reinjected = self._outside = 0
        self._made = MadeRows()
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
        frames = self._given(Rows(self._stages.complete_rows(rows, portion.rows)))
        portion.frames += frames if source is None else [Given(at, with_events(frame, source)) for at, frame in frames]
        portion.rows += batch.num_rows

    def _with_clock(self, batch: pa.RecordBatch, fresh: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without a time get that of the batch. Unreadable records do not: they would move the watermark."""
        self._sources["processing_time"] += pc.sum(_lacks_time(fresh)).as_py() or 0
        times = pc.if_else(_lacks_time(batch), pa.scalar(self.clock_us, pa.int64()), batch.column(c.EVENT_TIME))
        return batch.set_column(batch.schema.get_field_index(c.EVENT_TIME), c.EVENT_TIME, times)

    def _begin(self, batch: pa.RecordBatch) -> None:
        self.clock_us = self._context.clock_us if self._context else int(batch.column(CLOCK)[0].as_py())
        self.portions[-1].frames += self._given(Clock(self.clock_us))
        watermark_us = self._context.watermark_us(self._tag) if self._context else None
        if watermark_us is not None:
            self.portions[-1].frames += self._given(Watermark(watermark_us))

    def packed(self, task: int) -> list[bytes]:
        """A message for each shard, once all rows are folded."""
        assert self.clock_us is not None, "nothing was added"
        numbers = self._context.numbers(self._tag) if self._context else Numbers.of_batch(task_batch_id())
        home = task % self._stages.shards
        with timed(self.spent, PACK):
            routed = self._stages.route_portions(self.portions, 1, home)
        tallies = self.tallies() | {f"{SENT}1": sent_rows(routed)}
        return [
            StageMessage(
                portions, self.clock_us, numbers, counts=self.counts if shard == home else Accounting(),
                tallies=tallies if shard == home else {},
            ).pack()
            for shard, portions in enumerate(routed)
        ]  # fmt: skip

    def _given(self, frame: Frame) -> list[Given]:
        (entry,) = self._graph.entries
        given = self._graph.feed(entry, [frame])
        return [each for each in given if not isinstance(each.frame, Clock | Watermark)]

    @property
    def counts(self) -> Accounting:
        return sum((operator.counts for operator in self._graph.operators), Accounting())

    def tallies(self) -> dict[str, int]:
        """Counts beside the accounting."""
        future = sum(operator.future_rows for operator in self._graph.operators if isinstance(operator, Intake))
        times = {f"{TIMES}{source}": count for source, count in self._sources.items()}
        rows = sum(portion.rows for portion in self.portions)
        counts = {FUTURE: future, REINJECTED: self._reinjected, NUMBERED: rows, OUTSIDE: self._outside}
        return counts | times | in_shares(self.spent, self._shared_by)[-1]


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
