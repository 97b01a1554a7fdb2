"""A backfill: transforms over old input as batch jobs, into their sinks or another one, beside a running pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from windowpane.config import Retry
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.history import History
from windowpane.connectors.retrying import RetryingSink
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.core.accounting import Accounting
from windowpane.core.time_range import TimeRange
from windowpane.errors import ConfigError, nearest
from windowpane.plan.backfill import BackfillPlan, plan_backfill
from windowpane.plan.pipeline import missing_paths
from windowpane.runtime.failures import spark_failure
from windowpane.runtime.pipeline import Pipeline
from windowpane.runtime.routes import build_sink, build_sinks
from windowpane.runtime.sources import pipeline_sources
from windowpane.spark.batch_job import BatchJob, BatchOutput, batch_session
from windowpane.spark.job_progress import told_progress
from windowpane.time import format_instant

LOG_FILE = "backfill.log"


@dataclass(frozen=True)
class Target:
    """Where results went: the sink's name and, if it is a folder or table of a backfill, its place."""

    sink: str
    place: str | None = None


@dataclass(frozen=True)
class Backfilled:
    """What the backfill of one transform has read and given."""

    planned: BackfillPlan
    account: Accounting
    stages: Mapping[str, Accounting]
    """Of windows over the results of others, by name."""
    outside: int
    """Rows that were read and lie outside the event times that the windows need."""
    times: Mapping[str, int]
    """Rows by the source of their time."""
    results: int
    seconds: float
    targets: Sequence[Target] = ()

    @property
    def transform(self) -> str:
        return self.planned.plan.transform


@dataclass(frozen=True)
class Backfill:
    """Transforms of a pipeline over a range of time. Neither reads nor changes the pipeline's checkpoint."""

    pipeline: Pipeline
    asked: TimeRange
    into: str | None = None
    """The name of a sink that takes the results instead of the transforms' own."""
    tell: Callable[[str], None] = field(default=lambda _: None)
    """Called with a note when a transform begins, and now and then while it runs."""

    @property
    def run_id(self) -> str:
        """Names the backfill. One of the same range replaces what an earlier one has written."""
        first, last = (_compact(us) for us in (self.asked.from_us, self.asked.to_us))
        return f"{first}_{last}"

    def plans(self) -> list[BackfillPlan]:
        """What would be read; raises what can be known to be impossible without Spark."""
        pipeline = self.pipeline
        for missing in missing_paths(pipeline.config, pipeline.plans):
            raise missing
        if self.into is not None and self.into not in pipeline.config.sinks and self.into not in pipeline.sinks:
            valid = nearest(self.into, [*pipeline.config.sinks, *pipeline.sinks])
            raise ConfigError("UNKNOWN_SINK", f"--into names the sink `{self.into}`, which is not declared",
                              f"valid, nearest first: {valid}")  # fmt: skip
        return [plan_backfill(pipeline.config, plan, self.asked) for plan in pipeline.plans]

    def carry_out(self, spark: SparkSession | None = None) -> list[Backfilled]:
        """Run all transforms, one after the other, and write their results."""
        plans = self.plans()
        with self.session(spark) as session:
            return [self._written(session, planned) for planned in plans]

    @contextmanager
    def session(self, given: SparkSession | None) -> Iterator[SparkSession]:
        """A session for batch jobs, of one that is given or of Spark started for this."""
        if given is not None:
            yield batch_session(given)
            return
        session = self.pipeline.session(log=self.log)
        try:
            yield batch_session(session)
        except Exception as failed:
            raise spark_failure(failed, None, self.log) from failed
        finally:
            session.stop()

    @property
    def log(self) -> Path:
        """The file that gets Spark's output: not that of the pipeline, which may be running."""
        log = self.pipeline.log.with_name(LOG_FILE)
        return log if log.parent.is_dir() else self.pipeline.config.base_dir / LOG_FILE

    @contextmanager
    def computed(
        self, spark: SparkSession, planned: BackfillPlan, *, identified: bool = False
    ) -> Iterator[BatchOutput]:
        """Run the job of one transform. `identified`: a sink wants the identity of emissions."""
        pipeline, plan = self.pipeline, planned.plan
        sources = pipeline_sources(
            spark,
            pipeline.config,
            plan,
            pipeline.checkpoint(plan),
            history=History(planned.recorded_since_us, planned.read),
        )
        spread = pipeline.config.options.extra_shuffles is not False
        job = BatchJob(
            spark=spark, plan=plan, sources=sources, rows_in=planned.read, results_in=planned.asked,
            clock_us=time.time_ns() // 1000, access=session_access(spark), identified=identified, spread=spread,
        )  # fmt: skip
        with told_progress(spark.sparkContext, plan.transform, self.tell), job.run() as output:
            yield output

    def _written(self, spark: SparkSession, planned: BackfillPlan) -> Backfilled:
        began, name = time.monotonic(), planned.plan.transform
        self.tell(f"{name}: reading …")
        identified = planned.plan.stages.has_identity
        takers = [self._target(sink, planned, identified=identified) for sink in self._sinks(planned)]
        with self.computed(spark, planned, identified=any(sink.wants_identity for sink in takers)) as output:
            account = output.account
            for sink in takers:
                sink.open(spark, identified=identified)
                try:
                    sink.write(self._batch(planned, output, identified=sink.wants_identity and identified))
                finally:
                    sink.close()
            return summary(planned, output, account, began, [_place(sink) for sink in takers])

    def _sinks(self, planned: BackfillPlan) -> list[Sink]:
        config, given = self.pipeline.config, self.pipeline.sinks
        if self.into is None:
            return build_sinks(config, planned.plan, given)
        return [given.get(self.into) or build_sink(config, self.into, config.sinks[self.into])]

    def _target(self, sink: Sink, planned: BackfillPlan, *, identified: bool) -> Sink:
        """The sink for a backfill's results. One that `--into` names takes them as they are, unless the stream does."""
        config, name = self.pipeline.config, planned.plan.transform
        own = sink.name in config.transforms[name].sinks
        found = sink.for_backfill(self.run_id, identified=identified) if own or self.into is None else sink
        if found is None and self.into is not None:
            found = sink
        if found is None:
            raise config.error(
                "BACKFILL_SINK",
                f"sink `{sink.name}` cannot replace results: windows that the stream has emitted would be there twice",
                "name another sink with --into NAME, or this one, if that is what you want",
                key=f"transforms.{name}.sink",
            )
        declared = config.sinks.get(sink.name)
        pauses = declared.retry.pauses if declared else Retry().pauses
        return RetryingSink(found, threading.Event(), pauses, config.redact)

    def _batch(self, planned: BackfillPlan, output: BatchOutput, *, identified: bool) -> SinkBatch:
        return SinkBatch(
            0, partial(output.frame, identified=identified), transform=planned.plan.transform, identified=identified,
            rows=output.emitted, run=f"backfill-{self.run_id}", replaces=True,
        )  # fmt: skip


def summary(
    planned: BackfillPlan, output: BatchOutput, account: Accounting, began: float, targets: Sequence[Target] = ()
) -> Backfilled:
    """The report of a job. `began`: on the monotonic clock, in seconds."""
    return Backfilled(
        planned, account, output.stage_accounts(), output.outside, output.times, output.emitted,
        round(time.monotonic() - began, 3), targets,
    )  # fmt: skip


def _place(sink: Sink) -> Target:
    return Target(sink.name, sink.place)


def _compact(us: int | None) -> str:
    """`20260131T120000Z`: an instant as a part of a file's name."""
    text = format_instant(us or 0)
    return text.replace(".000000", "").replace("-", "").replace(":", "") if text.endswith("Z") else text
