"""A pipeline: every transform of a pipeline.toml as a streaming query, with status, graceful end and quick stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from windowpane.config import PipelineConfig, load_pipeline, parse_pipeline
from windowpane.connectors.sinks import Sink
from windowpane.errors import StateError, WindowpaneError
from windowpane.plan.build import Plan
from windowpane.plan.eventtime import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime.checkpoint import Checkpoint, RunLock
from windowpane.runtime.routes import build_sinks, side_sinks
from windowpane.runtime.sources import pipeline_sources
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow, build_dataflow
from windowpane.spark.ending import end_batch
from windowpane.spark.ledger import Entry
from windowpane.spark.session import create_session, prepare_session

DEFAULT_CHECKPOINT = "state"


@dataclass
class RunningTransform:
    """One transform's streaming query."""

    plan: Plan
    checkpoint: Checkpoint
    dataflow: Dataflow
    runner: BatchRunner
    query: StreamingQuery

    def drain(self) -> Entry | None:
        """End the stream here: emit everything open, then never start again."""
        self.query.stop()
        last = self.checkpoint.last_committed()
        entry = self.checkpoint.ledger.read(last)
        if entry is not None:
            spark = self.runner.spark
            packed = end_batch(spark, self.checkpoint.spark, self.dataflow.stages, last, entry.clock_us)
            self.runner.run(packed, last + 1, final=True)
        self.checkpoint.finish(last + 1)
        return self.checkpoint.ledger.read(last + 1)


@dataclass
class Pipeline:
    """A checked and planned pipeline, ready to start."""

    config: PipelineConfig
    plans: tuple[Plan, ...]
    types: EventtimeTypes = field(default_factory=lambda: EVENTTIME_TYPES)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    """Sinks given from Python (a callable, a memory sink) in place of those of the same name in the file."""

    @classmethod
    def from_toml(cls, path: str | Path, **given: Any) -> Self:
        """Load and plan; every mistake in file or SQL is raised here, before Spark starts."""
        config = load_pipeline(Path(path))
        return cls(config, plan_pipeline(config), **given)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], base_dir: str | Path = ".", **given: Any) -> Self:
        """The same from a mapping with the keys of pipeline.toml."""
        config = parse_pipeline(settings, base_dir=Path(base_dir))
        return cls(config, plan_pipeline(config), **given)

    @property
    def folder(self) -> Path:
        """The checkpoint of the whole pipeline."""
        return self.config.base_dir / (self.config.options.checkpoint or DEFAULT_CHECKPOINT)

    def checkpoint(self, plan: Plan) -> Checkpoint:
        return Checkpoint(self.folder / plan.transform)

    def start(
        self, spark: SparkSession | None = None, *, watch: Callable[[str, Entry], None] | None = None
    ) -> RunningPipeline:
        """Start all transforms. `watch` hears of every finished micro-batch."""
        lock = RunLock(self.folder)
        lock.acquire()
        try:
            shards = {
                plan.transform: self.checkpoint(plan).claim(plan, self.config.options.shards) for plan in self.plans
            }
            own = spark is None
            session = spark or create_session(self.config.spark)
            heard = watch or (lambda _name, _entry: None)
            transforms = [self._start(session, plan, shards[plan.transform], heard) for plan in self.plans]
        except BaseException:
            lock.release()
            raise
        return RunningPipeline(self, session, transforms, lock, owns_session=own)

    def _start(
        self, spark: SparkSession, plan: Plan, shards: int, watch: Callable[[str, Entry], None]
    ) -> RunningTransform:
        checkpoint = self.checkpoint(plan)
        prepare_session(spark, shards)
        sources = pipeline_sources(spark, self.config, plan)
        dataflow = build_dataflow(spark, plan, sources, self.types, shards=shards, feedback=True)
        sinks = build_sinks(self.config, plan, self.sinks)
        runner = BatchRunner(
            spark, dataflow, checkpoint.ledger, sinks, side_sinks(self.config, plan, self.sinks),
            lambda entry: watch(plan.transform, entry),
        )  # fmt: skip
        last = checkpoint.last_committed()
        runner.tell_watermark(last, checkpoint.ledger.read(last))
        writer = dataflow.packed.writeStream.outputMode("append").option("checkpointLocation", checkpoint.spark)
        writer = writer.queryName(f"{plan.transform}").foreachBatch(runner.run)
        trigger = self.config.options.trigger
        if trigger.kind == "available_now":
            writer = writer.trigger(availableNow=True)
        elif trigger.every_us:
            writer = writer.trigger(processingTime=f"{trigger.every_us // 1000} milliseconds")
        return RunningTransform(plan, checkpoint, dataflow, runner, writer.start())


class RunningPipeline:
    """A started pipeline. `drain` ends it gracefully, `stop` quickly: then it can be started again."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        transforms: list[RunningTransform],
        lock: RunLock,
        *,
        owns_session: bool,
    ) -> None:
        self.pipeline, self.spark, self.transforms = pipeline, spark, transforms
        self._lock, self._owns_session = lock, owns_session
        self._ended = threading.Event()

    @property
    def active(self) -> bool:
        return any(transform.query.isActive for transform in self.transforms)

    def wait(self, timeout: float | None = None) -> bool:
        """Until all transforms have ended by themselves (available_now, or an error). False when time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for transform in self.transforms:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                done = transform.query.awaitTermination(*([] if left is None else [left]))  # type: ignore[arg-type]  # takes fractions of a second
            except Exception as failed:
                raise _reason(failed) from failed
            if done is False:
                return False
        return True

    def status(self) -> dict[str, Entry | None]:
        """The last ledger entry of each transform."""
        return {transform.plan.transform: transform.checkpoint.ledger.last() for transform in self.transforms}

    def drain(self) -> dict[str, Entry | None]:
        """Graceful end: every open window is emitted, and the checkpoint is finished."""
        ended = {transform.plan.transform: transform.drain() for transform in self.transforms}
        self._close()
        return ended

    def stop(self) -> None:
        """Quick stop: nothing is emitted, everything stays in the checkpoint."""
        for transform in self.transforms:
            transform.query.stop()
        self._close()

    def _close(self) -> None:
        for transform in self.transforms:
            for sink in transform.runner.sinks:
                sink.close()
        self._lock.release()
        self._ended.set()


def _reason(failed: Exception) -> WindowpaneError:
    """The error of ours inside what Spark wrapped around it, else a StateError with its first line."""
    text = str(failed)
    if isinstance(failed, WindowpaneError):
        return failed
    first = next((line for line in text.splitlines() if line.strip()), type(failed).__name__)
    return StateError("QUERY_FAILED", f"the query stopped: {first}")
