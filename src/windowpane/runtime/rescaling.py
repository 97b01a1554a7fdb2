"""Gives the state of a stopped pipeline another number of shards.

The next generation of Spark's checkpoint is made beside the one in use, which stays as it is until `plan.json` names
the new one. A rescale that is cut short has changed nothing, and the next start removes what it has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from windowpane.checkpoint.evolution import adopted_by
from windowpane.checkpoint.generations import WORK, NextGeneration, remove_others
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint, open_plans
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import adopted_plan
from windowpane.remote.objects import scheme_of
from windowpane.runtime.failures import spark_failure
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.sources import pipeline_sources
from windowpane.spark.dataflow import build_dataflow
from windowpane.spark.rescaling import ShardSize, StateFiles, divide_state, store_state
from windowpane.spark.session import prepare_session
from windowpane.spark.stages import Stages
from windowpane.spark.workers import is_local
from windowpane.temporary import temporary


@dataclass(frozen=True)
class Rescaled:
    """What happens to the state of a transform."""

    transform: str
    shards_before: int
    shards: int
    layout: str
    """What determines the shard of a row, as EXPLAIN shows it."""
    before: list[ShardSize] = field(default_factory=list)
    after: list[ShardSize] = field(default_factory=list)


@dataclass(frozen=True)
class Rescale:
    """Rescales the transforms of a pipeline. `dry_run`: divides the state, and throws the result away."""

    pipeline: Pipeline
    shards: int
    dry_run: bool = False

    def carry_out(self, spark: SparkSession | None = None) -> list[Rescaled]:
        """StateError while a process runs on the checkpoint, or if the state cannot be divided."""
        lock = RunLock(self.pipeline.store)
        store = lock.acquire()
        try:
            plans = open_plans(store, self.pipeline.plans)
            checkpoints = [Checkpoint(store.below(plan.transform)) for plan in plans]
            records = [self._record(plan, each) for plan, each in zip(plans, checkpoints, strict=True)]
            found = [
                (adopted_plan(self.pipeline.config, plan, adopted_by(record)), record)
                for plan, record in zip(plans, records, strict=True)
            ]
            if all(record.shards == self.shards for _, record in found):
                return [
                    Rescaled(plan.transform, self.shards, self.shards, _layout(plan, record)) for plan, record in found
                ]
            with self._session(spark) as session:
                return [
                    self._rescaled(session, plan, record, checkpoint)
                    for (plan, record), checkpoint in zip(found, checkpoints, strict=True)
                ]
        finally:
            lock.release()

    def _record(self, plan: Plan, checkpoint: Checkpoint) -> PlanRecord:
        record = checkpoint.admit(plan, None)
        if record is None:
            hint = f"the next run makes one: set options `shards = {self.shards}`"
            raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {checkpoint.address}", hint)
        return record

    @contextmanager
    def _session(self, given: SparkSession | None) -> Iterator[SparkSession]:
        if given is not None:
            yield given
            return
        session = self.pipeline.session(self._master())
        try:
            yield session
        except Exception as failed:
            raise spark_failure(failed, None, self.pipeline.log) from failed
        finally:
            session.stop()

    def _master(self) -> str | None:
        """This machine, if executors on others would have no folder to exchange the state by."""
        given = self.pipeline.config.spark.master or ""
        is_remote = scheme_of(self.pipeline.store.spark_path())
        return "local[*]" if is_remote and given and not is_local(given) else None

    def _rescaled(self, spark: SparkSession, plan: Plan, record: PlanRecord, checkpoint: Checkpoint) -> Rescaled:
        layout = _layout(plan, record)
        if record.shards == self.shards:
            return Rescaled(plan.transform, self.shards, self.shards, layout)
        following = NextGeneration(checkpoint.store, record, self.shards)
        remove_others(checkpoint.store, following.before)
        try:
            before, after = self._made(spark, plan, checkpoint, following)
            if not self.dry_run:
                following.use()
        finally:
            if checkpoint.record().generation == record.generation:
                remove_others(checkpoint.store, following.before)
        return Rescaled(plan.transform, record.shards, self.shards, layout, before, after)

    def _made(
        self, spark: SparkSession, plan: Plan, checkpoint: Checkpoint, following: NextGeneration
    ) -> tuple[list[ShardSize], list[ShardSize]]:
        """Make the next generation. Gives the shards before and after."""
        with self._work_folder(spark, checkpoint) as folder:
            return self._made_in(StateFiles(folder), spark, plan, checkpoint, following)

    @contextmanager
    def _work_folder(self, spark: SparkSession, checkpoint: Checkpoint) -> Iterator[str]:
        """A folder that all executors see: in the checkpoint, or on this machine if all of Spark runs here."""
        path = checkpoint.store.spark_path(WORK)
        if not scheme_of(path):
            checkpoint.store.make_folder(WORK)
            yield path
        elif is_local(spark.sparkContext.master or ""):
            with temporary("rescale") as folder:
                yield str(folder)
        else:
            raise StateError(
                "RESCALE_NEEDS_FOLDER",
                f"executors exchange the state by files in a folder, and {checkpoint.address} is not one",
                "use `windowpane rescale` without spark-submit: it runs Spark on one machine for this",
            )

    def _made_in(
        self, files: StateFiles, spark: SparkSession, plan: Plan, checkpoint: Checkpoint, following: NextGeneration
    ) -> tuple[list[ShardSize], list[ShardSize]]:
        before, after = list[ShardSize](), list[ShardSize]()
        last = checkpoint.log.last_committed()
        following.begin()
        if last >= 0:
            prepare_session(spark, self.shards, following.path)
            stages = self._stages(spark, plan, checkpoint, following.record)
            after = divide_state(spark, checkpoint.spark, stages, last, files)
            before = files.old_sizes(range(1, stages.last_step + 1))
            if not self.dry_run:
                store_state(spark, following.path, stages, files)
        if not self.dry_run:
            following.take_up_logs()
        return before, after

    def _stages(self, spark: SparkSession, plan: Plan, checkpoint: Checkpoint, record: PlanRecord) -> Stages:
        sources = pipeline_sources(spark, self.pipeline.config, plan, checkpoint)
        return build_dataflow(
            spark, plan, sources, shards=self.shards, feedback=True, ticks=False, spread=record.spread
        ).stages


def _layout(plan: Plan, record: PlanRecord) -> str:
    stages = plan.stages if record.spread else plan.stages.in_one_shuffle()
    return stages.describe_layout()
