"""A query over old input as one batch job: the operators of the stream, without state, micro-batches or a watermark.

Tasks fold all rows, one shuffle brings them to their shards, and each shard ends its stream: it releases every row and
closes every window. No row is late, because no watermark stands before the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from windowpane.core.accounting import Accounting
from windowpane.core.time_range import TimeRange
from windowpane.plan.build import Plan
from windowpane.remote.access import Access
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.dataflow import Dataflow, fold_input
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.ending import end_at_once
from windowpane.spark.fold import OUTSIDE
from windowpane.spark.job_inputs import JobMember, Sources
from windowpane.spark.job_stages import ALONE
from windowpane.spark.merge_stage import REPORT
from windowpane.spark.outputs import ResultFrame
from windowpane.spark.reports import Reports, time_sources
from windowpane.spark.session import prepare_session

_SETTINGS = {
    # Each shard has a partition of its own. Spark would join small ones.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
}


def batch_session(spark: SparkSession) -> SparkSession:
    """A copy of the session for a batch job, whose settings are its own."""
    internal: Any = spark
    copied = SparkSession(spark.sparkContext, internal._jsparkSession.cloneSession())  # noqa: SLF001
    for name, value in _SETTINGS.items():
        copied.conf.set(name, value)
    return copied


@dataclass(frozen=True)
class BatchOutput:
    """What a job gave. Results stay in Spark until a sink takes them."""

    packed: DataFrame
    results: ResultFrame
    reports: Reports

    @property
    def account(self) -> Accounting:
        """Of the rows within the range; InternalError if they do not add up."""
        self.reports.check_crossings()
        self.reports.counts.check(0)
        return self.reports.counts

    def stage_accounts(self) -> dict[str, Accounting]:
        """Of windows over the results of others, by name."""
        accounts = self.reports.stages()
        for account in accounts.values():
            account.check(0)
        return accounts

    @property
    def outside(self) -> int:
        """Rows that were read and lie outside the range of time that the windows need."""
        return self.reports.tallies[OUTSIDE]

    @property
    def emitted(self) -> int:
        return sum(shard.results for shard in self.reports.shards)

    @property
    def times(self) -> dict[str, int]:
        """Rows by the source of their time."""
        return time_sources(self.reports.tallies)

    def frame(self, *, identified: bool = False) -> DataFrame:
        """The results of the query. `identified`: with the columns that identify the emission of each row."""
        return self.results.build(self.results.unpacked(self.packed), identified=identified)


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """A planned query over sources that are read as a batch. `spark`: a session of `batch_session`."""

    spark: SparkSession
    plan: Plan
    sources: Sources
    rows_in: TimeRange
    results_in: TimeRange
    clock_us: int
    """Processing time of all rows."""
    access: Access
    identified: bool = False
    spread: bool = True

    @contextmanager
    def run(self) -> Iterator[BatchOutput]:
        """Run the job. Its results exist until the end of the block."""
        dataflow = self._dataflow()
        prepare_session(self.spark, dataflow.job.shards)
        context = self.spark.sparkContext
        context.setLocalProperty(PROPERTY, BatchContext(0, self.clock_us, {ALONE: [None, 0]}).as_property())
        packed = dataflow.packed.persist(StorageLevel.DISK_ONLY)
        try:
            reports = DriverCalls(self.spark).collect(packed.where(f"kind = '{REPORT}'"))
            yield BatchOutput(packed, dataflow.only_results, Reports.of(payload for _, payload in reports))
        finally:
            packed.unpersist()
            context.setLocalProperty(PROPERTY, "")

    def _dataflow(self) -> Dataflow:
        member = JobMember(
            self.plan, self.sources, identified=self.identified, spread=self.spread, rows_in=self.rows_in,
            results_in=self.results_in,
        )  # fmt: skip
        folded = fold_input(
            self.spark, [member], shards=None, feedback=True, ticks=False, overflow=None, access=self.access
        )
        packed = end_at_once(folded.packed, folded.job, clock_us=self.clock_us, shard_ids=folded.shard_ids)
        return replace(folded, packed=packed)
