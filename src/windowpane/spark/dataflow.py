"""The planned queries of a job as a Spark dataflow: sources, fold stage, a shuffle before each stateful stage, packed
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.errors import PlanError
from windowpane.evaluation.made_rows import MadeRows
from windowpane.plan.build import Plan
from windowpane.plan.stages import ChainStage, JoinStage
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.spark.event_times import NOW
from windowpane.spark.fold import CLOCK
from windowpane.spark.job_inputs import JobInput, JobMember, job_inputs
from windowpane.spark.job_stages import ALONE, JobStages
from windowpane.spark.merge_stage import OUTPUT, MergeStage
from windowpane.spark.outputs import ResultFrame, crossing_schema
from windowpane.spark.overflow import Overflow
from windowpane.spark.session import shard_ids
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages
from windowpane.spark.ticking import TickStage, ticking
from windowpane.spark.user_functions import register_functions
from windowpane.sql import SessionFacts

MOST_SHARDS = 200
"""Of a job whose number of shards follows from its input."""


@dataclass(frozen=True)
class Dataflow:
    """`packed` is the last stage's output (`merge_stage.OUTPUT`); `results` unpack those of each transform, by tag."""

    packed: DataFrame
    job: JobStages
    results: Mapping[str, ResultFrame]
    shard_ids: tuple[int, ...]
    """What Spark calls the shards."""
    sources: tuple[str, ...] = ()
    """The streams that workers read, in the order in which Spark numbers them."""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    """Of the rows that tasks give to the operators of each transform, by tag."""

    @property
    def only_results(self) -> ResultFrame:
        """Of a job of one transform."""
        return self.results[ALONE]


def build_dataflow(
    spark: SparkSession,
    members: Sequence[JobMember],
    *,
    shards: int,
    feedback: bool,
    ticks: bool,
    cache_bytes: int = 0,
    overflow: str | None = None,
    access: Access = NO_ACCESS,
    steps: int | None = None,
    sources: Sequence[str] = (),
) -> Dataflow:
    """Put the stages of all transforms together. `feedback`: the host tells tasks the watermark of the batch before.

    `ticks`: micro-batches come without input too. `cache_bytes`: how much of the state each executor caches on its
    disk. `overflow`: a folder or an address for large results. `access`: how workers reach object stores. `steps`: how
    many stateful stages the query has; None: as many as those of its transforms need that are not late. `sources`: the
    streams in the order in which the query has read them before.
    """
    built = fold_input(
        spark,
        members,
        shards=shards,
        feedback=feedback,
        ticks=ticks,
        overflow=overflow,
        access=access,
        steps=steps,
        sources=sources,
    )
    packed, job = built.packed, built.job
    for step in range(1, job.last_step + 1):
        stage = MergeStage(job, step, built.shard_ids, cache_bytes)
        packed = packed.groupBy("shard").transformWithState(stage, OUTPUT, "Append", "None")
    return replace(built, packed=packed)


def fold_input(
    spark: SparkSession,
    members: Sequence[JobMember],
    *,
    shards: int | None,
    feedback: bool,
    ticks: bool,
    overflow: str | None,
    access: Access,
    steps: int | None = None,
    sources: Sequence[str] = (),
) -> Dataflow:
    """The part of a dataflow before the first shuffle, for `packed` the messages of the fold stage.

    `shards` None: as many as the input has parts. The others: as of `build_dataflow`.
    """
    register_functions(spark)
    settings = {name: str(spark.conf.get(name)) for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    facts = SessionFacts.of(settings)
    for member in members:
        _check_session(member.plan, facts)
    inputs = job_inputs(spark, members, facts, feedback=feedback, access=access, order=sources)
    shards = shards or _shards_for(spark, inputs)
    stages, results, schemas = dict[str, Stages](), dict[str, ResultFrame](), dict[str, pa.Schema]()
    for member in sorted(members, key=lambda each: each.is_late):
        schema = next(each.schemas[member.tag] for each in inputs if member.tag in each.schemas)
        schemas[member.tag] = schema
        split = partial(_split, schema=schema, shards=shards, feedback=feedback, access=access)
        most = steps or (max(each.last_step for each in stages.values()) if member.is_late else None)
        stages[member.tag], results[member.tag] = _fitting(member, split, most)
    stages = {member.tag: stages[member.tag] for member in members}
    outlet = Overflow.of(overflow, shards * len(members), access)
    follows = {member.tag: member.follows for member in members if member.follows is not None}
    job = JobStages.of(
        {tag: replace(each, overflow=outlet) for tag, each in stages.items()}, steps=steps or 0, follows=follows
    )
    ids = shard_ids(spark, shards)
    packed = reduce(DataFrame.unionAll, [each.folded(job, ids) for each in inputs])
    if ticks:
        packed = packed.unionAll(ticking(spark, TickStage(job, ids), NOW))
    read = tuple(each.partitions_of for each in inputs if each.partitions_of is not None)
    return Dataflow(packed, job, results, ids, read, schemas)


def _fitting(
    member: JobMember, split: Callable[[JobMember], tuple[Stages, ResultFrame]], most: int | None
) -> tuple[Stages, ResultFrame]:
    """The stages of a transform in at most so many steps. With fewer, dedupe and quotas run beside the groups."""
    found = split(member)
    if most is not None and found[0].last_step > most:
        found = split(replace(member, spread=False))
    if most is not None and found[0].last_step > most:
        raise PlanError(
            "TOO_MANY_SHUFFLES",
            f"transform `{member.plan.transform}` needs {found[0].last_step} shuffles, and the checkpoint has {most}",
            "set another `checkpoint` folder, or begin anew: windowpane reset",
        )
    return found


def _split(
    member: JobMember, *, schema: pa.Schema, shards: int, feedback: bool, access: Access
) -> tuple[Stages, ResultFrame]:
    """The stages of a transform for rows of this schema, and how its results are unpacked."""
    crossing = MadeRows().marked(empty_batch(schema)).schema
    sent = pa.schema([field for field in crossing if field.name not in (CLOCK, c.TIME_SOURCE, *c.FILE_COLUMNS)])
    stages, emitted = split_stages(member.plan, sent, shards=shards, feedback=feedback, spread=member.spread)
    results = ResultFrame.over(
        member.plan.stages.result,
        member.plan.plan_id,
        crossing_schema(emitted),
        identified=member.identified,
        access=access,
    )
    columns = tuple(results.schema.names)
    return replace(stages, result_columns=columns, rows_in=member.rows_in, results_in=member.results_in), results


def _shards_for(spark: SparkSession, inputs: Sequence[JobInput]) -> int:
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
