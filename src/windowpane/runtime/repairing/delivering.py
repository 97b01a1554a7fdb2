"""Delivers the corrected results of a repair to the sinks of the transform, on Spark, under the repair's number."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from windowpane.checkpoint.repairs import RepairRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint, suffix_of
from windowpane.config import PipelineConfig
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.core.frames import Emissions
from windowpane.core.wire import pack_frames
from windowpane.plan.build import Plan
from windowpane.runtime.asking.sink_rows import REPAIR
from windowpane.runtime.routes import build_sinks
from windowpane.spark.gathering import Gathered
from windowpane.spark.outputs import ResultFrame, crossing_schema


def deliver(
    spark: SparkSession,
    config: PipelineConfig,
    plan: Plan,
    record: RepairRecord,
    *,
    given: Mapping[str, Sink],
    checkpoint: Checkpoint,
    lock: RunLock,
) -> None:
    """Write the results of a repair to every sink. A sink that has them already keeps one copy."""
    emitted = checkpoint.repairs.results(record.number)
    sinks = build_sinks(config, plan, given)
    results = ResultFrame.over(
        plan.stages.result, plan.plan_id, crossing_schema(emitted.schema),
        identified=any(sink.wants_identity for sink in sinks),
    )  # fmt: skip
    shown = emitted.select(results.schema.names).combine_chunks().to_batches()
    payloads = [pack_frames([Emissions(batch)], Accounting()) for batch in shown]
    gathered = Gathered(spark, results, [], payloads, [], [], [])
    batch = SinkBatch(
        record.number, gathered.results_frame, table=gathered.table(), rows=record.results,
        transform=f"{plan.transform}{suffix_of(checkpoint.version)}{REPAIR}", run=checkpoint.log.run_id(),
        fence=lock.fence, check_lease=lock.check,
    )  # fmt: skip
    for sink in sinks:
        sink.open(spark, identified=results.has_identity)
        try:
            sink.write(gathered.identified(batch) if sink.wants_identity else batch)
        finally:
            sink.close()
