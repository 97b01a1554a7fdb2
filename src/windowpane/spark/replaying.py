"""Side rows that a transform reads once more: the driver folds them as a task would, and the first task of the
micro-batch sends the messages to the shards.

They count as `made`, not as read: the row of the source that each of them is was counted when it was read.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.replays import Replay, Replays
from windowpane.core import columns as c
from windowpane.core.frames import Progress, Rows
from windowpane.core.numbering import Place, Portion
from windowpane.spark.batch_context import BatchContext
from windowpane.spark.fold import REPLAYED, Fold
from windowpane.spark.job_stages import JobStages
from windowpane.spark.stages import Stages

Evaluate: TypeAlias = Callable[[str, Sequence[Mapping[str, Any]], int], pa.RecordBatch]
"""Rows of a stream as operators take them, at the clock of a micro-batch."""
_LAST = Place(1 << 62)
"""Replayed rows are numbered behind those of the source."""


@dataclass
class Replaying:
    """The replays of one transform. Only the process that holds the lease has one."""

    replays: Replays
    evaluate: Evaluate
    schema: pa.Schema
    """Of the rows that tasks give to the operators."""
    sent: list[Replay] = field(default_factory=list)
    """Those of the present micro-batch."""
    _waiting: list[Replay] | None = None
    _rows: int = 0

    def load(self) -> None:
        """Read what waits: at the start, and when something was added."""
        self._waiting = self.replays.waiting()

    def messages(self, stages: Stages, tag: str, context: BatchContext, before: Entry | None) -> list[bytes] | None:
        """A message for each shard; None if the micro-batch takes nothing. `before`: the entry of the batch before."""
        if self._waiting is None:
            self.load()
        done = set(before.replays) if before else set[int]()
        for replay in [each for each in self._waiting or () if each.number in done]:
            self.replays.finish(replay.number)
            self._waiting = [each for each in self._waiting or () if each.number not in done]
        self.sent = [each for each in self._waiting or () if each.after_batch < context.batch]
        self._rows = 0
        if not self.sent:
            return None
        fold = _ReplayFold(stages, (tag,), context)
        for replay in self.sent:
            fold.take(self._completed(self.evaluate(replay.stream, replay.rows, context.clock_us)))
        self._rows = sum(portion.rows for portion in fold.portions)
        return fold.messages(0)[tag]

    def taken(self, rows: int) -> list[Replay]:
        """What the micro-batch has taken: all that was sent, or nothing if it had no task. `rows`: as tasks report."""
        return self.sent if rows and rows == self._rows else []

    def _completed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """With the columns that tasks give, and each row marked as made."""
        names = rows.schema.names
        columns = {
            each.name: _cast(rows.column(each.name), each.type) if each.name in names
            else pa.nulls(rows.num_rows, each.type)
            for each in self.schema
        }  # fmt: skip
        for name in (c.ERROR, c.DETAIL, c.KEEP):  # rows that have become bad since
            columns |= {name: rows.column(name)} if name in names else {}
        return pa.RecordBatch.from_pydict(columns | {c.MADE: pa.array(np.ones(rows.num_rows, bool))})


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(values.type):
        return values.cast(kind.value_type).dictionary_encode().cast(kind)
    return values if values.type == kind else values.cast(kind)


class _ReplayFold(Fold):
    """Rows that move no watermark, and are not part of what the source gave."""

    def take(self, rows: pa.RecordBatch) -> None:
        self.portions.append(portion := Portion(_LAST))
        if self.clock_us is None:
            self._begin(rows)
        frames = self._given(Rows(self._stages.complete_rows(rows, 0)))
        portion.frames += [each for each in frames if not isinstance(each.frame, Progress)]
        portion.rows += rows.num_rows

    def tallies(self) -> dict[str, int]:
        found = super().tallies()
        return found | {REPLAYED: sum(portion.rows for portion in self.portions)}

    def _latest_us(self) -> int | None:
        return None


def encoded_messages(job: JobStages, sent: Mapping[str, list[bytes]]) -> list[str]:
    """For `BatchContext.replayed`: a text for each shard. `sent`: the messages of transforms, by tag."""
    if not sent:
        return []
    packed = [job.pack({tag: payloads[shard] for tag, payloads in sent.items()}) for shard in range(job.shards)]
    return [base64.b64encode(payload).decode() for payload in packed]
