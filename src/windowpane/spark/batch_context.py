"""What the driver tells the tasks of a micro-batch: a local property of the query's thread, which Spark passes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pyspark import TaskContext

from windowpane.core.metadata import decode_record, encode_record
from windowpane.core.numbering import Numbers
from windowpane.errors import InternalError

PROPERTY = "windowpane.before"


@dataclass(frozen=True)
class BatchContext:
    """The driver's context for a micro-batch. A stale one would misclassify late rows."""

    batch: int
    clock_us: int
    """The timestamp of the micro-batch."""
    before: dict[str, list[int | None]]
    """Of each transform that takes rows, by tag: the watermark before the micro-batch, and the arrival number of its
    first row."""
    alone: list[str] = field(default_factory=list)
    """Versions of a transform before which none runs any more: rows before their cut are late."""
    ending: list[str] = field(default_factory=list)
    """Transforms that end with the micro-batch: they take no rows, and emit everything open."""
    dropped: list[str] = field(default_factory=list)
    """Tags of transforms that the job no longer has: their state is removed."""
    replayed: list[str] = field(default_factory=list)
    """A message to each shard, in base64: side rows that are read once more. The first task sends them."""

    def watermark_us(self, tag: str) -> int | None:
        """The watermark of a transform before the micro-batch."""
        return self.before[tag][0]

    def numbers(self, tag: str) -> Numbers:
        """The arrival numbers of a transform's rows."""
        return Numbers.onwards(self.before[tag][1] or 0)

    def as_property(self) -> str:
        return json.dumps(encode_record(self))

    @classmethod
    def of_task(cls) -> BatchContext:
        """The context of the task that runs; InternalError if it is that of another micro-batch."""
        text, batch_id = task_context().getLocalProperty(PROPERTY), task_batch_id()
        stored = json.loads(text) if text else {}
        if stored.get("batch") != batch_id:
            raise InternalError(
                "WATERMARK_FEEDBACK", f"batch {batch_id} has the driver's context of batch {stored.get('batch')}"
            )
        return decode_record(cls, stored)


def task_context() -> TaskContext:
    """Spark's context of the task that runs."""
    context = TaskContext.get()
    assert context is not None
    return context


def task_batch_id() -> int:
    """The micro-batch of the task that runs."""
    return int(task_context().getLocalProperty("streaming.sql.batchId") or 0)
