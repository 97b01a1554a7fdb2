"""A planned query as a Spark dataflow: source, fold stage, a shuffle before each stateful stage, packed results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.columns import SOURCE_TIME
from windowpane.core.time_range import ALWAYS, TimeRange
from windowpane.errors import PlanError
from windowpane.evaluation.made_rows import MadeRows
from windowpane.formats import load, source_format
from windowpane.plan.build import Plan
from windowpane.plan.scan import StreamScan
from windowpane.plan.stages import ChainStage, JoinStage
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.scan.files import FileReader
from windowpane.scan.messages import MessageReader
from windowpane.scan.scan import Reader, Scan
from windowpane.spark.event_times import NOW
from windowpane.spark.fold_stage import CLOCK, FoldStage
from windowpane.spark.inputs import InputFrame
from windowpane.spark.merge_stage import OUTPUT, MergeStage
from windowpane.spark.outputs import ResultFrame, crossing_schema
from windowpane.spark.overflow import Overflow
from windowpane.spark.session import shard_ids
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import PACKED, Stages
from windowpane.spark.ticking import TickStage, ticking
from windowpane.spark.user_functions import register_functions
from windowpane.sql import SessionFacts
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow

MOST_SHARDS = 200
"""Of a job whose number of shards follows from its input."""


@dataclass(frozen=True)
class Dataflow:
    """`packed` is the last stage's output (`merge_stage.OUTPUT`); `results` unpacks the results of a batch of it."""

    packed: DataFrame
    stages: Stages
    results: ResultFrame
    shard_ids: tuple[int, ...]
    """What Spark calls the shards."""


@dataclass(frozen=True)
class Sources:
    """How to open the pipeline's streams and tables by name."""

    stream: Callable[[str], DataFrame]
    table: Callable[[str], DataFrame]
    scanned: Callable[[StreamScan], DataFrame] | None = None
    """For the columnar scan, only what workers read a stream by: the list of its files, or its records as they are."""


def build_dataflow(
    spark: SparkSession,
    plan: Plan,
    sources: Sources,
    *,
    shards: int,
    feedback: bool,
    ticks: bool,
    identified: bool = False,
    spread: bool = True,
    cache_bytes: int = 0,
    overflow: str | None = None,
    access: Access = NO_ACCESS,
) -> Dataflow:
    """Put the stages of a plan together. `feedback`: the host tells tasks the watermark of the batch before.

    `ticks`: micro-batches come without input too. `identified`: a sink wants to know which emission a row is. `spread`:
    rows may be shuffled more than once. `cache_bytes`: how much of the state each executor caches on its disk.
    `overflow`: a folder or an address for large results. `access`: how workers reach object stores.
    """
    built = fold_input(
        spark, plan, sources, shards=shards, feedback=feedback, ticks=ticks, identified=identified, spread=spread,
        overflow=overflow, access=access,
    )  # fmt: skip
    packed, stages = built.packed, built.stages
    for step in range(1, stages.last_step + 1):
        stage = MergeStage(stages, step, built.shard_ids, cache_bytes)
        packed = packed.groupBy("shard").transformWithState(stage, OUTPUT, "Append", "None")
    return replace(built, packed=packed)


def fold_input(
    spark: SparkSession,
    plan: Plan,
    sources: Sources,
    *,
    shards: int | None,
    feedback: bool,
    ticks: bool,
    identified: bool,
    spread: bool,
    overflow: str | None,
    access: Access,
    rows_in: TimeRange = ALWAYS,
    results_in: TimeRange = ALWAYS,
) -> Dataflow:
    """The part of a dataflow before the first shuffle, for `packed` the messages of the fold stage.

    `shards` None: as many as the input has parts. `rows_in` and `results_in`: as of Stages. The others: as of
    `build_dataflow`.
    """
    register_functions(spark)
    settings = {name: str(spark.conf.get(name)) for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    facts = SessionFacts.of(settings)
    _check_session(plan, facts)
    inputs = _inputs(spark, plan, sources, facts, feedback=feedback, access=access)
    shards = shards or _shards_for(spark, inputs)
    crossing = MadeRows().marked(empty_batch(inputs[0].schema)).schema
    sent = pa.schema([field for field in crossing if field.name not in (CLOCK, c.TIME_SOURCE, *c.FILE_COLUMNS)])
    stages, emitted = split_stages(plan, sent, shards=shards, feedback=feedback, spread=spread)
    ids = shard_ids(spark, shards)
    stages = replace(stages, rows_in=rows_in, results_in=results_in)
    folded = reduce(DataFrame.unionAll, [each.folded(stages, ids) for each in inputs])
    if ticks:
        folded = folded.unionAll(ticking(spark, TickStage(ids, feedback), NOW))
    results = ResultFrame.over(
        plan.stages.result, plan.plan_id, crossing_schema(emitted), identified=identified, access=access
    )
    columns = tuple(results.schema.names)
    stages = replace(stages, result_columns=columns, overflow=Overflow.of(overflow, shards, access))
    return Dataflow(folded, stages, results, ids)


def _shards_for(spark: SparkSession, inputs: Sequence[_Input]) -> int:
    """For a job without state: one for each part of the input, so that what a shard gets fits into memory."""
    parts = sum(each.handed.rdd.getNumPartitions() for each in inputs)
    return max(spark.sparkContext.defaultParallelism, min(parts, MOST_SHARDS))


_COMPUTED: dict[type[ChainStage | JoinStage], tuple[str, str]] = {
    ChainStage: ("CHAIN_SESSION", "what is computed between two windows"),
    JoinStage: ("JOIN_EXPRESSION", "what is over both sides of a join"),
}


def _check_session(plan: Plan, session: SessionFacts) -> None:
    """Behind the first shuffle, workers compute expressions as Spark does in UTC and ANSI mode."""
    for kind, (code, what) in _COMPUTED.items():
        if not all(stage.holds_in(session) for stage in plan.stages.of(kind)):
            raise PlanError(
                code, f"{what} depends on the session's time zone or ANSI mode",
                "set spark.sql.session.timeZone to UTC and spark.sql.ansi.enabled to true, or compute it elsewhere",
            )  # fmt: skip


@dataclass(frozen=True)
class _Input:
    """What the tasks of a source get: rows, or what the scan reads them by. `schema`: of the rows."""

    handed: DataFrame
    schema: pa.Schema
    scan: Scan | None = None
    partitions_of: str | None = None
    """The stream that the scan reads, in the names of source partitions."""

    def folded(self, stages: Stages, shard_ids: tuple[int, ...]) -> DataFrame:
        if self.partitions_of is not None:
            stages = replace(stages, stream=self.partitions_of)
        unused = c.FILE_COLUMNS if self.scan is None and not stages.ordered else ()
        return self.handed.drop(*unused).mapInArrow(FoldStage(stages, shard_ids, self.scan).run, PACKED)


def _inputs(
    spark: SparkSession, plan: Plan, sources: Sources, facts: SessionFacts, *, feedback: bool, access: Access
) -> list[_Input]:
    """One for each stream that workers read, or one for all of FROM."""
    if plan.scan is not None and plan.scan.holds_in(facts) and sources.scanned is not None and feedback:
        scans = [(each, worker_scan(each, access)) for each in plan.scan.streams]
        return [_Input(sources.scanned(each), scan.schema, scan, each.partitions_of) for each, scan in scans]
    rows = InputFrame(
        spark, plan.stages.input, plan.types, stream=sources.stream, table=sources.table, clock=not feedback
    ).build()
    return [_Input(rows, to_arrow_schema(rows.schema, timezone="UTC"))]


def worker_scan(scan: StreamScan, access: Access = NO_ACCESS) -> Scan:
    """A planned scan as workers run it."""
    return Scan(_reader(scan, access), scan.projections, scan.original)


def _reader(scan: StreamScan, access: Access) -> Reader:
    reader = source_format(scan.format).file_reader
    if reader is not None:
        return FileReader(load(reader), _typed(scan.columns), scan.max_record_bytes, access)
    assert scan.codec is not None, "messages are scanned with a codec only"
    stamp = (Column(SOURCE_TIME, "TIMESTAMP"),) if scan.stamped else ()
    return MessageReader(
        stream=scan.partitions_of,
        codec=load(scan.codec.workers)(dict(scan.decoding_options)),
        columns=_typed(scan.columns),
        beside=_typed(scan.own + stamp),
        several_topics=scan.several_topics,
        max_record_bytes=scan.max_record_bytes,
    )


def _typed(columns: tuple[Column, ...]) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((column.name, to_arrow(column.type)) for column in columns)
