"""A source that ticks, for plans that depend on the clock: time passes without input.

Spark's timers are not sufficient: after a restart, Spark runs no micro-batch for them until there is input. A tick is
input. It is in the offset log, tells every shard the timestamp that Spark recorded for the batch, and is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from windowpane.core.wire import StageMessage
from windowpane.spark.batch_context import BatchContext
from windowpane.spark.fold import CLOCK
from windowpane.spark.fold_stage import last_messages, packed_batch, replayed_messages
from windowpane.spark.job_stages import JobStages
from windowpane.spark.stages import PACKED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORIGIN = -1
"""The origin of ticks. Tasks of the source count from 0."""


def ticking(spark: SparkSession, stage: TickStage, now: str) -> DataFrame:
    """A packed row per shard for every micro-batch; a micro-batch for every second that passes without input.

    `rate` counts the seconds since the query was first started, over all restarts: after a pause it ticks at once.
    """
    ticks = spark.readStream.format("rate").options(rowsPerSecond=1, numPartitions=1).load()
    return ticks.selectExpr(f"{now} AS {CLOCK}").mapInArrow(stage.run, PACKED)


@dataclass(frozen=True)
class TickStage:
    """Picklable: mapInArrow calls `run` in a worker. Sends the time to all shards, and nothing else."""

    job: JobStages
    shard_ids: tuple[int, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock_us = None
        for batch in batches:
            if batch.num_rows:
                clock_us = int(batch.column(CLOCK)[0].as_py())
        if clock_us is not None:
            context = BatchContext.of_task() if self.job.feedback else None
            said_us = context.clock_us if context else clock_us
            running = dict.fromkeys(context.before if context else self.job.members, StageMessage([], said_us).pack())
            payload = self.job.pack(running | last_messages(context))
            yield packed_batch(self.shard_ids, ORIGIN, [payload] * len(self.shard_ids))
            yield from replayed_messages(self.shard_ids, context)
