"""The end of a stream, at which everything open is emitted.

A graceful end reads back the state of a stopped query. A backfill has no state: it ends once all rows are in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from windowpane.spark.entries import spool
from windowpane.spark.job_stages import JobStages
from windowpane.spark.merge_stage import OUTPUT, JobShard, addressed, state_name
from windowpane.spark.stages import MESSAGE
from windowpane.temporary import make_temporary

_ENTRY = "entry"
"""The kind of rows that hold a state entry; their `name` is its name."""
_ROWS = f"{OUTPUT}, name string"
_UNESCAPED = "/:@!$&'()*+,;="
"""What Java leaves as it is in the path of an address, beside letters and digits."""


@dataclass(frozen=True)
class EndShards:
    """Picklable: `run` ends one shard of a step in a worker, with its state and the messages of the step before."""

    job: JobStages
    step: int
    shard_ids: tuple[int, ...]
    clock_us: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard_id, messages = 0, list[tuple[int, bytes]]()
        with spool() as entries:
            for batch in batches:
                shard_id = batch.column("shard")[0].as_py()
                for name, payload in _of_kind(batch, _ENTRY, "name"):
                    entries.add(name, payload)
                messages += [(origin, bytes(payload)) for origin, payload in _of_kind(batch, MESSAGE, "origin")]
                yield batch.filter(pc.invert(pc.is_in(batch.column("kind"), pa.array([_ENTRY, MESSAGE]))))
            shard = JobShard(self.job, entries.map(), self.step)
            shard.end(self.clock_us, [payload for _, payload in sorted(messages, key=lambda pair: pair[0])])
            yield self._given(shard, shard_id)

    def _given(self, shard: JobShard, shard_id: int) -> pa.RecordBatch:
        given = list(addressed(shard, self.shard_ids.index(shard_id), Counter()))
        return pa.RecordBatch.from_pydict(
            {
                "shard": pa.array([self.shard_ids[to] for to, _, _ in given], pa.int32()),
                "origin": pa.array([shard_id] * len(given), pa.int32()),
                "kind": pa.array([kind for _, kind, _ in given], pa.string()),
                "payload": pa.array([payload for _, _, payload in given], pa.binary()),
                "name": pa.nulls(len(given), pa.string()),
            }
        )


def _of_kind(batch: pa.RecordBatch, kind: str, label: str) -> Iterator[tuple[Any, pa.Buffer]]:
    """The payloads of rows of a kind, each with another column's value."""
    chosen = batch.filter(pc.equal(batch.column("kind"), kind))
    payloads = (payload.as_buffer() for payload in chosen.column("payload"))
    return zip(chosen.column(label).to_pylist(), payloads, strict=True)


def read_state(spark: SparkSession, checkpoint: str, job: JobStages, step: int, batch_id: int) -> DataFrame:
    """The state entries of all shards of a step as of a batch: shard, entry, blob."""
    # Spark numbers stateful operators from the last one to the first.
    reader = spark.read.format("statestore").option("operatorId", job.last_step - step).option("batchId", batch_id)
    state = reader.option("stateVarName", state_name(job, step)).load(_unescaped(checkpoint))
    return state.selectExpr("key.shard AS shard", "user_map_key.entry AS entry", "user_map_value.blob AS blob")


@cache
def _unescaped(checkpoint: str) -> str:
    """Spark's reader of state looks for `my%20folder` where `my folder` is meant: it gets a link to such a folder."""
    if "://" in checkpoint or quote(checkpoint, safe=_UNESCAPED) == checkpoint:
        return checkpoint
    link = make_temporary("state") / "checkpoint"
    link.symlink_to(checkpoint, target_is_directory=True)
    return str(link)


def end_batch(
    spark: SparkSession, checkpoint: str, job: JobStages, batch_id: int, *, clock_us: int, shard_ids: Sequence[int]
) -> DataFrame:
    """What the stages would give if the stream ended after `batch_id`."""

    def ended(before: DataFrame | None, step: int) -> DataFrame:
        state = read_state(spark, checkpoint, job, step, batch_id).selectExpr(
            "shard", "-1 AS origin", f"'{_ENTRY}' AS kind", "blob AS payload", "entry AS name"
        )
        rows = state if before is None else state.unionAll(before)
        return _ended(rows, EndShards(job, step, tuple(shard_ids), clock_us))

    whole = reduce(ended, range(1, job.last_step + 1), None)
    assert whole is not None
    return whole.drop("name")


def end_at_once(folded: DataFrame, job: JobStages, *, clock_us: int, shard_ids: Sequence[int]) -> DataFrame:
    """What the stages give of a stream that has these messages of the fold stage and then ends. Nothing is stored."""
    whole = folded.selectExpr("*", "CAST(NULL AS STRING) AS name")
    for step in range(1, job.last_step + 1):
        whole = _ended(whole, EndShards(job, step, tuple(shard_ids), clock_us))
    return whole.drop("name")


def _ended(rows: DataFrame, end: EndShards) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Spark tells by the annotations and the number of arguments what to pass: a bound method will not do."""
        return end.run(batches)

    return rows.groupBy("shard").applyInArrow(run, _ROWS)
