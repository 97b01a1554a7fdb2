"""Looking into the state of a stopped query: what every shard keeps, without changing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.spark.ending import read_state
from windowpane.spark.entries import spool
from windowpane.spark.job_stages import ALONE, JobStages, entries_of
from windowpane.spark.merge_stage import Shard

HOLDINGS = "shard int, operator string, what string, start_us bigint, end_us bigint, count bigint, size bigint"
_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()), ("operator", pa.string()), ("what", pa.string()), ("start_us", pa.int64()),
        ("end_us", pa.int64()), ("count", pa.int64()), ("size", pa.int64()),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class DescribeShards:
    """Picklable: `run` describes one shard of a transform in a worker."""

    job: JobStages
    tag: str
    step: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard = 0
        with spool() as entries:
            for batch in batches:
                shard = batch.column("shard")[0].as_py()
                for name, content in zip(batch.column("entry").to_pylist(), batch.column("blob"), strict=True):
                    entries.add(name, content.as_buffer())
            held = Shard(self.job.members[self.tag], entries_of(entries.map(), self.tag), self.step).holdings()
        rows = [{"shard": shard, "operator": operator} | vars(item) for operator, item in held]
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def read_holdings(spark: SparkSession, checkpoint: str, job: JobStages, batch_id: int, tag: str = ALONE) -> DataFrame:
    """What the state of a transform held after a batch, by `HOLDINGS`."""

    def of_step(step: int) -> DataFrame:
        describe = DescribeShards(job, tag, step)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            """Spark tells by the annotations and the number of arguments what to pass: a bound method will not do."""
            return describe.run(batches)

        return read_state(spark, checkpoint, job, step, batch_id).groupBy("shard").applyInArrow(run, HOLDINGS)

    return reduce(DataFrame.unionAll, map(of_step, range(1, job.members[tag].last_step + 1)))
