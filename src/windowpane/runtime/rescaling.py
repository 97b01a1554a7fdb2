"""Gives the state of a stopped pipeline another number of shards.

The next generation of Spark's checkpoint is made beside the one in use, which stays as it is until `plan.json` names
the new one. A rescale that is cut short has changed nothing, and the next start removes what it has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from windowpane.checkpoint.generations import WORK, NextGeneration, remove_others
from windowpane.checkpoint.jobs import JobFile, JobRecord
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.recent import EventLog, event_now
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, open_plans, transform_checkpoint
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.remote.objects import scheme_of
from windowpane.runtime.failures import spark_failure
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.stopped_jobs import job_plans, job_stages_of
from windowpane.spark.rescaling import ShardSize, StateFiles, divide_state, store_state
from windowpane.spark.session import prepare_session
from windowpane.spark.workers import is_local
from windowpane.temporary import temporary


@dataclass(frozen=True)
class Rescaled:
    """What happens to the state of a job."""

    transform: str
    """Or several, if they share the job."""
    shards_before: int
    shards: int
    layout: str
    """What determines the shard of a row, as EXPLAIN shows it."""
    before: list[ShardSize] = field(default_factory=list)
    after: list[ShardSize] = field(default_factory=list)

    def words(self) -> str:
        return f"{self.transform}: {self.shards_before} shards became {self.shards}"


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
            jobs = self._jobs(store)
            if all(job.shards == self.shards for job in jobs):
                return [Rescaled(job.name, self.shards, self.shards, job.layout) for job in jobs]
            with self._session(spark) as session:
                rescaled = [self._rescaled(session, job) for job in jobs]
            if not self.dry_run:
                EventLog(store).add(event_now("rescale", each.words()) for each in rescaled)
            return rescaled
        finally:
            lock.release()

    def _jobs(self, store: Store) -> list[_StoppedJob]:
        """The jobs of the pipeline, each once."""
        jobs: dict[str, _StoppedJob] = {}
        for plan in open_plans(store, self.pipeline.plans):
            checkpoint = transform_checkpoint(store, plan.transform)
            job = jobs.setdefault(checkpoint.job_address, _StoppedJob(plan, checkpoint, []))
            job.transforms.append((plan, self._record(plan, checkpoint)))
        for job in jobs.values():
            job_plans(self.pipeline, job.plan, job.checkpoint)
        return list(jobs.values())

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

    def _rescaled(self, spark: SparkSession, job: _StoppedJob) -> Rescaled:
        if job.shards == self.shards:
            return Rescaled(job.name, self.shards, self.shards, job.layout)
        shared, record = job.checkpoint.shared, job.record
        following = NextGeneration(shared, record, self.shards)
        remove_others(shared, following.before)
        try:
            before, after = self._made(spark, job, following)
            if not self.dry_run:
                following.use()
        finally:
            if job.checkpoint.record().generation == record.generation:
                remove_others(shared, following.before)
        return Rescaled(job.name, record.shards, self.shards, job.layout, before, after)

    def _made(
        self, spark: SparkSession, job: _StoppedJob, following: NextGeneration
    ) -> tuple[list[ShardSize], list[ShardSize]]:
        """Make the next generation. Gives the shards before and after."""
        with self._work_folder(spark, job.checkpoint) as folder:
            return self._made_in(StateFiles(folder), spark, job, following)

    @contextmanager
    def _work_folder(self, spark: SparkSession, checkpoint: Checkpoint) -> Iterator[str]:
        """A folder that all executors see: in the checkpoint, or on this machine if all of Spark runs here."""
        path = checkpoint.shared.spark_path(WORK)
        if not scheme_of(path):
            checkpoint.shared.make_folder(WORK)
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
        self, files: StateFiles, spark: SparkSession, job: _StoppedJob, following: NextGeneration
    ) -> tuple[list[ShardSize], list[ShardSize]]:
        before, after = list[ShardSize](), list[ShardSize]()
        checkpoint = job.checkpoint
        last = checkpoint.log.last_committed()
        following.begin()
        if last >= 0:
            prepare_session(spark, self.shards, following.path)
            stages = job_stages_of(spark, self.pipeline, job.plan, checkpoint, self.shards)
            after = divide_state(spark, checkpoint.spark, stages, last, files)
            before = files.old_sizes(range(1, stages.last_step + 1))
            if not self.dry_run:
                store_state(spark, following.path, stages, files)
        if not self.dry_run:
            following.take_up_logs()
        return before, after


@dataclass(frozen=True)
class _StoppedJob:
    """A job as its checkpoint has it. `plan` and `checkpoint` are those of its first transform."""

    plan: Plan
    checkpoint: Checkpoint
    transforms: list[tuple[Plan, PlanRecord]]

    @property
    def name(self) -> str:
        return ", ".join(plan.transform for plan, _ in self.transforms)

    @property
    def record(self) -> PlanRecord | JobRecord:
        """The record that names the generation in use."""
        shared = None if self.checkpoint.job is None else JobFile(self.checkpoint.job).read()
        return shared or self.transforms[0][1]

    @property
    def shards(self) -> int:
        return self.record.shards

    @property
    def layout(self) -> str:
        found = [plan.stages if record.spread else plan.stages.in_one_shuffle() for plan, record in self.transforms]
        return "; ".join(dict.fromkeys(stages.describe_layout() for stages in found))
