"""A pipeline: every transform of a pipeline.toml, planned, and started as streaming queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.job_claims import admit_jobs, claim_jobs
from windowpane.checkpoint.job_members import Consent
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.restoring import check_restored
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.config import PipelineConfig, Trigger, load_pipeline, parse_options, parse_pipeline
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.sinks import Sink
from windowpane.errors import ConfigError, WindowpaneError
from windowpane.observe.endpoint import MetricsEndpoint
from windowpane.observe.metrics import PipelineMetrics
from windowpane.plan.build import Plan
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.jobs import plan_jobs
from windowpane.plan.pipeline import missing_paths, plan_pipeline
from windowpane.remote.objects import is_object_store
from windowpane.runtime.failures import spark_failure, start_failure
from windowpane.runtime.location import log_file, pipeline_store, prepare_store
from windowpane.runtime.recent import RecentKeeper
from windowpane.runtime.routes import check_given
from windowpane.runtime.running import RunningPipeline
from windowpane.runtime.settling import complete, unsettled
from windowpane.runtime.starting import JobStart, Watch
from windowpane.runtime.status import Board
from windowpane.runtime.versions import recorded_plan, versions_of
from windowpane.spark.session import create_session


@dataclass(repr=False)
class Pipeline:
    """A checked and planned pipeline, ready to start."""

    config: PipelineConfig
    plans: tuple[Plan, ...]
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    """Sinks given from Python (a callable, a memory sink) in place of those of the same name in the file."""
    trigger: Trigger | None = None
    """Instead of the one in the file."""
    metrics_port: int | None = None
    """Instead of the one in the file."""

    def __post_init__(self) -> None:
        check_given(self.config, self.plans, self.sinks)

    def __repr__(self) -> str:
        named = ", ".join(plan.transform for plan in self.plans)
        return f"<Pipeline {self.config.file or 'from a mapping'}: {named}>"

    @classmethod
    def from_toml(
        cls,
        path: str | Path,
        *,
        transform: str | None = None,
        types: EventtimeTypes = EVENTTIME_TYPES,
        sinks: Mapping[str, Sink] | None = None,
        trigger: Trigger | str | None = None,
        metrics_port: int | None = None,
    ) -> Self:
        """Load and plan, all transforms or one; every mistake in file or SQL is raised here, before Spark starts.

        `sinks` take the place of those of the same name in the file; `trigger` ("10s") and `metrics_port` of the keys.
        """
        config = load_pipeline(Path(path))
        return cls(config, plan_pipeline(config, transform, types), sinks or {}, _trigger(trigger), metrics_port)

    @classmethod
    def from_dict(
        cls,
        settings: Mapping[str, Any],
        base_dir: str | Path = ".",
        *,
        transform: str | None = None,
        types: EventtimeTypes = EVENTTIME_TYPES,
        sinks: Mapping[str, Sink] | None = None,
        trigger: Trigger | str | None = None,
        metrics_port: int | None = None,
    ) -> Self:
        """The same from a mapping with the keys of pipeline.toml."""
        config = parse_pipeline(settings, base_dir=Path(base_dir))
        return cls(config, plan_pipeline(config, transform, types), sinks or {}, _trigger(trigger), metrics_port)

    @cached_property
    def store(self) -> Store:
        """The checkpoint of the whole pipeline."""
        return pipeline_store(self.config)

    @property
    def log(self) -> Path:
        """The file that gets Spark's output if the pipeline starts Spark itself."""
        return log_file(self.config)

    def checkpoint(self, plan: Plan) -> Checkpoint:
        return transform_checkpoint(self.store, plan.transform)

    def start(
        self,
        spark: SparkSession | None = None,
        *,
        watch: Watch | None = None,
        evolve: bool = False,
        drain_removed: bool = False,
    ) -> RunningPipeline:
        """Start all transforms. `watch` is called for every finished micro-batch.

        `evolve`: queries may change, and transforms that are gone are dropped. `drain_removed`: these emit their open
        windows first.
        """
        consent = self.consent(evolve=evolve, drain_removed=drain_removed)
        for missing in missing_paths(self.config, self.plans):
            raise missing
        prepare_store(self.config)
        lock = RunLock(self._store_for(spark))
        store = lock.acquire()
        metrics = None
        try:
            store.sweep()
            check_restored(store)
            Savepoints(store).sweep()
            Requests(store).forget()
            planned = plan_jobs(self.config, self.plans)
            admit_jobs(store, planned, self.config.options, consent=consent)
            recent = RecentKeeper(store)
            board = Board(store, self.config.file, recent=recent)
            metrics = self._serve_metrics(board)
            session = spark or self.session()
            running = RunningPipeline(
                session, store=store, lock=lock, board=board, log=self.log, owns_session=spark is None, metrics=metrics,
                config=self.config, given=self.sinks,
            )  # fmt: skip
        except BaseException:
            if metrics is not None:
                metrics.close()
            lock.release()
            raise
        try:
            recent.listen()
            if evolve:
                self._complete_batches(session, store, lock, board)
            for claims in claim_jobs(store, planned, self.config.options, consent=consent, replan=self._planned_again):
                versions = [version for each in claims for version in versions_of(self.config, each)]
                start = JobStart(
                    spark=session, config=self.config, claims=versions, lock=lock, given=self.sinks,
                    dropped=claims[0].checkpoint.dropped(),
                )  # fmt: skip
                running.add(start.start(self.trigger or self.config.options.trigger, board, watch))
            board.become("running")
        except Exception as failed:
            raise running.fail(self._located(spark_failure(failed, None, self.log))) from failed
        except BaseException:  # Ctrl-C
            running.stop()
            raise
        return running

    def consent(self, *, evolve: bool, drain_removed: bool) -> Consent:
        """What the user has agreed to."""
        return Consent(evolve, drain_removed, frozenset(self.config.transforms))

    def _planned_again(self, transform: str, record: PlanRecord) -> Plan:
        return recorded_plan(self.config, transform, record, self.plans[0].types)

    def _complete_batches(self, spark: SparkSession, store: Store, lock: RunLock, board: Board) -> None:
        """Complete micro-batches that were begun with other plans than those of now."""
        trigger = self.trigger or self.config.options.trigger
        for claims in unsettled(self.config, store, self.plans):
            start = JobStart(spark=spark, config=self.config, claims=claims, lock=lock, given=self.sinks)
            complete(partial(start.start, trigger, board, None, once=True))

    def _store_for(self, spark: SparkSession | None) -> Store:
        """A session of the user knows how to reach object stores, whether `[spark]` does or not."""
        if spark is None or not is_object_store(self.store.address()):
            return self.store
        return pipeline_store(self.config, session_access(spark))

    def _located(self, failed: WindowpaneError) -> WindowpaneError:
        """A mistake that was found by a layer that knows the key but not the file."""
        if isinstance(failed, ConfigError) and failed.file is None:
            return self.config.error(failed.code, failed.message, failed.hint, key=failed.key)
        return failed

    def _serve_metrics(self, board: Board) -> MetricsEndpoint | None:
        options = self.config.options.metrics
        port = options.port if self.metrics_port is None else self.metrics_port
        if port is None:
            return None
        metrics = PipelineMetrics(board.document)
        endpoint = MetricsEndpoint(metrics, port, options.host)
        board.serve_metrics(endpoint.url, metrics.batch_done)
        return endpoint

    def session(self, master: str | None = None, *, log: Path | None = None) -> SparkSession:
        """A new session by `[spark]`. `master` and `log`: instead of those of the pipeline."""
        settings = self.config.spark if master is None else self.config.spark.model_copy(update={"master": master})
        log = log or self.log
        logged = log.stat().st_size if log.exists() else 0
        try:
            return create_session(settings, base=self.config.base_dir, log=log)
        except Exception as failed:
            raise self._located(start_failure(failed, log, logged)) from failed


def _trigger(given: Trigger | str | None) -> Trigger | None:
    return parse_options({"trigger": given}).trigger if isinstance(given, str) else given
