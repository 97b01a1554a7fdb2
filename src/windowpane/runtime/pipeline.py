"""A pipeline: every transform of a pipeline.toml, planned, and started as streaming queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from windowpane.checkpoint.control import Requests
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.transform import Checkpoint, RunLock, open_plans
from windowpane.config import (
    PipelineConfig,
    Retry,
    Trigger,
    load_pipeline,
    parse_options,
    parse_pipeline,
)
from windowpane.connectors.batch_index import BatchIndex
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import Sink
from windowpane.connectors.sources import EXACTLY, Reading
from windowpane.connectors.unreadable_files import damaged_files
from windowpane.errors import ConfigError, WindowpaneError
from windowpane.observe.endpoint import MetricsEndpoint
from windowpane.observe.metrics import PipelineMetrics
from windowpane.plan.build import Plan
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.pipeline import missing_paths, plan_pipeline
from windowpane.runtime.failures import spark_failure, start_failure
from windowpane.runtime.location import open_folder, pipeline_folder
from windowpane.runtime.notices import Notices, warn_of_no_ticks
from windowpane.runtime.routes import build_side_output, build_sinks, check_given
from windowpane.runtime.running import RunningPipeline
from windowpane.runtime.sources import pipeline_sources
from windowpane.runtime.status import Board
from windowpane.runtime.transform import RunningTransform
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow, build_dataflow
from windowpane.spark.session import create_session
from windowpane.spark.side_output import SideOutput

LOG_FILE = "spark.log"
Watch = Callable[[str, Entry], None]


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

    @property
    def folder(self) -> Path:
        """The checkpoint of the whole pipeline."""
        return pipeline_folder(self.config)

    @property
    def log(self) -> Path:
        """Where Spark's output goes when the pipeline starts Spark itself."""
        return self.folder / LOG_FILE

    def checkpoint(self, plan: Plan) -> Checkpoint:
        return Checkpoint(self.folder / plan.transform)

    def start(self, spark: SparkSession | None = None, *, watch: Watch | None = None) -> RunningPipeline:
        """Start all transforms. `watch` hears of every finished micro-batch."""
        for missing in missing_paths(self.config, self.plans):
            raise missing
        lock = RunLock(open_folder(self.config))
        lock.acquire()
        Requests(self.folder).forget()
        metrics = None
        try:
            shards, plans = self.config.options.shards, open_plans(self.folder, self.plans)
            claims = [(plan, self.checkpoint(plan).claim(plan, shards)) for plan in plans]
            board = Board(self.folder, self.config.file)
            metrics = self._serve_metrics(board)
            session = spark or self._session()
            running = RunningPipeline(session, [], lock, board, owns_session=spark is None, metrics=metrics)
        except BaseException:
            if metrics is not None:
                metrics.close()
            lock.release()
            raise
        try:
            for plan, count in claims:
                running.transforms.append(self._start(session, plan, count, self._hearing(board, plan, watch), board))
            board.become("running")
        except Exception as failed:
            raise running.fail(self._located(spark_failure(failed, None, self.log))) from failed
        except BaseException:  # Ctrl-C
            running.stop()
            raise
        return running

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

    def _session(self) -> SparkSession:
        logged = self.log.stat().st_size if self.log.exists() else 0
        try:
            return create_session(self.config.spark, base=self.config.base_dir, log=self.log)
        except Exception as failed:
            raise start_failure(failed, self.log, logged) from failed

    def _retrying(self, sink: Sink, stopping: threading.Event) -> RetryingSink:
        settings = self.config.sinks.get(sink.name)
        pauses = settings.retry.pauses if settings else Retry().pauses
        return RetryingSink(sink, stopping, pauses, self.config.redact)

    def _hearing(self, board: Board, plan: Plan, watch: Watch | None) -> Callable[[Entry], None]:
        board.begin(plan.transform, self.checkpoint(plan).ledger.last())
        notices = Notices(plan)

        def hear(entry: Entry) -> None:
            notices.hear(entry)
            board.note(plan.transform, entry)
            if watch is not None:
                watch(plan.transform, entry)

        return hear

    def _start(
        self, spark: SparkSession, plan: Plan, shards: int, watch: Callable[[Entry], None], board: Board
    ) -> RunningTransform:
        checkpoint = self.checkpoint(plan)
        stopping = threading.Event()
        sinks = [self._retrying(sink, stopping) for sink in build_sinks(self.config, plan, self.sinks)]
        build = partial(self._build, spark, plan, shards, identified=any(sink.wants_identity for sink in sinks))
        dataflow = build()
        if plan.ticks_for and not checkpoint.ticks():
            warn_of_no_ticks(plan)
        side = build_side_output(spark, self.config, plan, checkpoint, self.sinks)
        for sink in sinks:
            sink.open(spark, identified=dataflow.results.has_identity)
        side.open(spark)
        runner = BatchRunner(
            spark,
            dataflow.results,
            checkpoint.ledger,
            checkpoint.timestamp_us,
            sinks,
            side,
            watch,
            plan.transform,
            damaged=checkpoint.damaged,
            run_id=checkpoint.run_id,
            unnamed_until=checkpoint.unnamed_until(),
        )

        def look_into(batch_id: int) -> dict[str, str]:
            return damaged_files(spark, self.config.streams, self.config.base_dir, checkpoint.spark, batch_id)

        config = self.config
        index = BatchIndex(spark, Path(checkpoint.spark), config.streams, config.base_dir, checkpoint.reinject)
        board.beside[plan.transform] = partial(_beside, self.config, plan, side)
        transform = RunningTransform(plan, checkpoint, build, dataflow, runner, stopping, self.log, look_into, index)
        side.begin(checkpoint.last_committed())
        transform.begin(self.trigger or self.config.options.trigger)
        return transform

    def _build(
        self,
        spark: SparkSession,
        plan: Plan,
        shards: int,
        reading: Reading = EXACTLY,
        *,
        identified: bool,
    ) -> Dataflow:
        checkpoint = self.checkpoint(plan)
        sources = pipeline_sources(spark, self.config, plan, checkpoint, reading=reading)
        return build_dataflow(
            spark, plan, sources, shards=shards, feedback=True, ticks=checkpoint.ticks(), identified=identified
        )


def _trigger(given: Trigger | str | None) -> Trigger | None:
    return parse_options({"trigger": given}).trigger if isinstance(given, str) else given


def _beside(config: PipelineConfig, plan: Plan, side: SideOutput) -> dict[str, Any]:
    """What a status has beside the last batch: where side rows go, and how their sinks do."""
    routes = config.transforms[plan.transform].side_output.routes()
    return {"routes": {kind: route.sink for kind, route in routes.items()}, "side_sinks": side.told()}
