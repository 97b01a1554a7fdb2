"""The fold stage, run by mapInArrow in every task of the source: rows in, one packed row per shard out."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from windowpane.core.rows import in_chunks
from windowpane.core.wire import StageMessage
from windowpane.scan.file_boundaries import by_place
from windowpane.scan.scan import Scanned
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.batch_context import BatchContext, task_context
from windowpane.spark.fold import Fold
from windowpane.spark.job_stages import JobStages
from windowpane.spark.shared_fold import SharedFold, SharedPanes
from windowpane.spark.stages import MESSAGE
from windowpane.spark.timings import FOLD, SOURCE, in_shares, timed, timed_items
from windowpane.spark.worker_garbage import freeze_loaded

REPLAY_ORIGIN = 1 << 30
"""The origin of replayed rows, which come behind those of all tasks."""


@dataclass(frozen=True)
class FoldStage:
    """Picklable: mapInArrow calls `run` in the workers. `shard_ids` are keys that spread over the partitions."""

    job: JobStages
    """The transforms that read this input."""
    shard_ids: tuple[int, ...]
    scan: SharedScan | None = None
    """Reads the input if that is a list of files, or undecoded records."""
    shared: tuple[SharedPanes, ...] = ()
    """Folds that several transforms share. The scan gives their rows under their names."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BatchContext.of_task() if self.job.feedback else None
        running = self if context is None else self._running(context)
        yield from running._folded(batches, context)  # noqa: SLF001  # of the same class
        yield from replayed_messages(self.shard_ids, context)
        freeze_loaded()

    def _running(self, context: BatchContext) -> FoldStage:
        """With the transforms that take rows in this micro-batch. Those that share a fold always do."""
        resting = [tag for tag in self.job.members if tag not in context.before]
        if not resting:
            return self
        tags = [tag for tag in self.job.members if tag in context.before]
        scans = {name: scan for name, scan in self.scan.scans.items() if name not in resting} if self.scan else {}
        scan = self.scan and replace(self.scan, scans=scans)
        return replace(self, job=self.job.only(tags), scan=scan)

    def _folded(self, batches: Iterator[pa.RecordBatch], context: BatchContext | None) -> Iterator[pa.RecordBatch]:
        folds = self._folds(context)
        spent: Counter[str] = Counter()
        for chunks in timed_items(self._read(batches, context), spent, SOURCE):
            for name, fold in folds.items():
                with timed(fold.spent, FOLD):
                    fold.add(chunks[name])
        shares = iter(in_shares(spent, sum(len(fold.tags) for fold in folds.values())))
        for fold in folds.values():
            for _ in fold.tags:
                fold.spent.update(next(shares))
        if all(fold.clock_us is not None for fold in folds.values()):
            task = task_context().partitionId()
            last, shards = last_messages(context), len(self.shard_ids)
            messages = packed_messages(self.job, folds.values(), task, shards=shards, last=last)
            yield packed_batch(self.shard_ids, task, messages)

    def _folds(self, context: BatchContext | None) -> dict[str, Fold]:
        """By the name under which the scan gives their rows."""
        folds: dict[str, Fold] = {}
        for panes in self.shared:
            assert context is not None, "the scan gives rows"
            units = self._alike(panes.keys, context)
            folds[panes.name] = SharedFold(panes, [(tags, self.job.members[tags[0]]) for tags in units], context)
        shared = {tag for panes in self.shared for tag in panes.keys}
        for tags in self._alike([tag for tag in self.job.members if tag not in shared], context):
            folds[tags[0]] = Fold(self.job.members[tags[0]], tags, context)
        return folds

    def _alike(self, among: Iterable[str], context: BatchContext | None) -> list[tuple[str, ...]]:
        """The tags of transforms, together if they make the same messages of the same rows."""
        found: list[tuple[tuple[object, ...], list[str]]] = []
        for tag in among:
            # A shared fold gives equal rows to all its transforms.
            scan = self.scan.scans.get(tag) if self.scan else None
            known = (context.before[tag], tag in context.alone) if context else None
            key = (scan, known, *self.job.members[tag].fold_identity())
            alike = next((tags for known, tags in found if known == key), None)
            if alike is None:
                found.append((key, [tag]))
            else:
                alike.append(tag)
        return [tuple(tags) for _, tags in found]

    def _read(self, batches: Iterator[pa.RecordBatch], context: BatchContext | None) -> Iterator[Mapping[str, Scanned]]:
        """The rows of each transform, by tag, and of shared folds, by name."""
        if not self.job.members:
            return iter(())
        if self.scan and context:
            return self.scan.read(batches, context.clock_us)
        return (dict.fromkeys(self.job.members, chunk) for chunk in by_place(in_chunks(batches)))


def last_messages(context: BatchContext | None) -> dict[str, bytes]:
    """What transforms are sent that end with the micro-batch, or that the job no longer has, by tag."""
    if context is None:
        return {}
    return dict.fromkeys([*context.ending, *context.dropped], StageMessage([], context.clock_us, ends=True).pack())


def replayed_messages(shard_ids: tuple[int, ...], context: BatchContext | None) -> Iterator[pa.RecordBatch]:
    """Side rows that the driver wants to be read once more, by the first task of the micro-batch."""
    if context is not None and context.replayed and task_context().partitionId() == 0:
        yield packed_batch(shard_ids, REPLAY_ORIGIN, [base64.b64decode(text) for text in context.replayed])


def packed_messages(
    job: JobStages, folds: Iterable[Fold], task: int, *, shards: int, last: dict[str, bytes]
) -> list[bytes]:
    """What a task sends to each shard. `last`: the messages of transforms that end."""
    sent = {tag: payloads for fold in folds for tag, payloads in fold.messages(task).items()}
    ordered = [tag for tag in job.members if tag in sent]
    return [job.pack({tag: sent[tag][shard] for tag in ordered} | last) for shard in range(shards)]


def packed_batch(shard_ids: tuple[int, ...], origin: int, payloads: list[bytes]) -> pa.RecordBatch:
    """What one task sends: a payload for each shard."""
    columns = [
        pa.array(shard_ids, pa.int32()),
        pa.array([origin] * len(payloads), pa.int32()),
        pa.array([MESSAGE] * len(payloads), pa.string()),
        pa.array(payloads, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["shard", "origin", "kind", "payload"])
