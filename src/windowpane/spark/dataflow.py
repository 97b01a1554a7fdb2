"""A planned query as a Spark dataflow: source, near stage, shuffle by shard, far stage, packed results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from windowpane.core import columns as c
from windowpane.plan.build import Plan
from windowpane.spark.far import OUTPUT, FarStage
from windowpane.spark.inputs import InputFrame
from windowpane.spark.near import CLOCK, PACKED, NearStage
from windowpane.spark.outputs import ResultFrame, emission_schema
from windowpane.spark.session import shard_ids
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages


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


def build_dataflow(spark: SparkSession, plan: Plan, sources: Sources, *, shards: int, feedback: bool) -> Dataflow:
    """Put the stages of a plan together. `feedback`: the host tells tasks the watermark of the batch before."""
    rows = InputFrame(
        spark, plan.physical, plan.query.relation, plan.types, sources.stream, sources.table, clock=not feedback
    ).build()
    sent = pa.schema([field for field in to_arrow_schema(rows.schema) if field.name not in (CLOCK, c.TIME_SOURCE)])
    stages, operators = split_stages(plan, sent, shards=shards, feedback=feedback)
    ids = shard_ids(spark, shards)
    near = rows.mapInArrow(NearStage(stages, ids).run, PACKED)
    packed = near.groupBy("shard").transformWithState(FarStage(stages), OUTPUT, "Append", "None")
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in sent], schema=sent)
    emitted = emission_schema(operators, stages.complete_rows(empty, 0).schema)
    return Dataflow(packed, stages, ResultFrame(plan.physical, plan.plan_id, emitted))
