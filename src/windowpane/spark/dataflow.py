"""A planned query as a Spark dataflow: source, near stage, shuffle by shard, far stage, packed results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.plan.build import Plan
from windowpane.plan.scan import ColumnarScan
from windowpane.spark.event_times import NOW
from windowpane.spark.far import OUTPUT, FarStage
from windowpane.spark.inputs import InputFrame
from windowpane.spark.near import CLOCK, PACKED, NearStage
from windowpane.spark.outputs import ResultFrame, emission_schema
from windowpane.spark.scanning import FileScan
from windowpane.spark.session import shard_ids
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages
from windowpane.spark.ticking import TickStage, ticking
from windowpane.sql.types import to_arrow


@dataclass(frozen=True)
class Dataflow:
    """`packed` is the far stage's output (`far.OUTPUT`); `results` unpacks the results of a batch of it."""

    packed: DataFrame
    stages: Stages
    results: ResultFrame


@dataclass(frozen=True)
class Sources:
    """How to open the pipeline's streams and tables by name."""

    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]
    files: Callable[[str], DataFrame] | None = None
    """Only the list of a stream's files, as they come: for the columnar scan."""


def build_dataflow(
    spark: SparkSession,
    plan: Plan,
    sources: Sources,
    *,
    shards: int,
    feedback: bool,
    ticks: bool,
    identified: bool = False,
) -> Dataflow:
    """Put the stages of a plan together. `feedback`: the host tells tasks the watermark of the batch before.

    `ticks`: micro-batches come without input too. `identified`: a sink wants to know which emission a row is.
    """
    if plan.scan is not None and sources.files is not None and feedback:
        scan = file_scan(plan.scan)
        rows, crossing = sources.files(plan.scan.stream), scan.schema
    else:
        scan = None
        rows = InputFrame(
            spark, plan.physical, plan.query.relation, plan.types, sources.stream, sources.table, clock=not feedback
        ).build()
        crossing = to_arrow_schema(rows.schema, timezone="UTC")
    sent = pa.schema([field for field in crossing if field.name not in (CLOCK, c.TIME_SOURCE)])
    stages, operators = split_stages(plan, sent, shards=shards, feedback=feedback)
    ids = shard_ids(spark, shards)
    near = rows.mapInArrow(NearStage(stages, ids, scan).run, PACKED)
    if ticks:
        near = near.unionAll(ticking(spark, TickStage(ids, feedback), NOW))
    emitted = emission_schema(operators, stages.complete_rows(empty_batch(sent), 0).schema)
    results = ResultFrame.over(plan.physical, plan.plan_id, emitted, identified=identified)
    stages = replace(stages, result_columns=tuple(results.schema.names))
    packed = near.groupBy("shard").transformWithState(FarStage(stages), OUTPUT, "Append", "None")
    return Dataflow(packed, stages, results)


def file_scan(scan: ColumnarScan) -> FileScan:
    """A planned scan as workers run it."""
    return FileScan(
        scan.format, tuple((column.name, to_arrow(column.type)) for column in scan.columns), scan.time, scan.plain,
        tuple((each.name, each.text, to_arrow(each.type)) for each in scan.computed), scan.where, scan.original,
        scan.detail,
    )  # fmt: skip
