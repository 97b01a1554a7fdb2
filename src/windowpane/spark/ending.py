"""Graceful end: the state of a stopped query is read back, and everything open in it is emitted as one last batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.spark.entries import entries_of
from windowpane.spark.merge_stage import OUTPUT, STATE, Shard
from windowpane.spark.stages import Stages


@dataclass(frozen=True)
class EndShards:
    """Picklable: `run` ends one shard in a worker."""

    stages: Stages
    clock_us: int

    def run(self, entries: pa.Table) -> pa.Table:
        outputs = Shard(self.stages, entries_of(entries)).end(self.clock_us)
        shard = entries.column("shard")[0].as_py()
        return pa.table(
            {
                "shard": pa.array([shard] * len(outputs), pa.int32()),
                "kind": pa.array([kind for kind, _ in outputs], pa.string()),
                "payload": pa.array([payload for _, payload in outputs], pa.binary()),
            }
        )


def read_state(spark: SparkSession, checkpoint: str, batch_id: int) -> DataFrame:
    """The state entries of all shards as of a batch: shard, entry, blob."""
    state = spark.read.format("statestore").option("stateVarName", STATE).option("batchId", batch_id).load(checkpoint)
    return state.selectExpr("key.shard AS shard", "user_map_key.entry AS entry", "user_map_value.blob AS blob")


def end_batch(spark: SparkSession, checkpoint: str, stages: Stages, batch_id: int, clock_us: int) -> DataFrame:
    """What the merge stage would give if the stream ended after `batch_id`."""
    state = read_state(spark, checkpoint, batch_id)
    end = EndShards(stages, clock_us)

    def run(entries: pa.Table) -> pa.Table:
        """Spark tells by the number of arguments whether it should pass the key too: a bound method will not do."""
        return end.run(entries)

    return state.groupBy("shard").applyInArrow(run, OUTPUT)
