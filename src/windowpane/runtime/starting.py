"""Builds the running parts of a job: the sinks and side outputs of its transforms, its dataflow and its query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from windowpane.checkpoint.job_claims import Claimed
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import PipelineConfig, Stream, Trigger
from windowpane.connectors.batch_index import BatchIndex
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.sinks import Sink
from windowpane.connectors.sources import EXACTLY, Reading
from windowpane.connectors.unreadable_files import find_unreadable
from windowpane.core.windows import AlignedSpec
from windowpane.plan.build import Plan
from windowpane.plan.definitions import redefined
from windowpane.plan.stages import LeafStage
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.asking.input_rows import InputRows
from windowpane.runtime.job import RunningJob
from windowpane.runtime.location import log_file
from windowpane.runtime.notices import Notices, warn_of_no_ticks
from windowpane.runtime.recent import RecentKeeper
from windowpane.runtime.refreshing import StaticTables
from windowpane.runtime.routes import build_result_output, build_side_output, build_sinks
from windowpane.runtime.sources import pipeline_sources
from windowpane.runtime.status import Board
from windowpane.runtime.topic_watch import TopicWatch
from windowpane.runtime.versions import follows, version_of
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow, build_dataflow
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.job_batch import JobRunner
from windowpane.spark.job_inputs import JobMember
from windowpane.spark.recent_rows import RecentRows
from windowpane.spark.replaying import Replaying
from windowpane.spark.result_output import ResultOutput
from windowpane.spark.side_output import SideOutput

Watch = Callable[[str, Entry], None]


@dataclass(frozen=True, kw_only=True)
class JobStart:
    """What is known when a job starts."""

    spark: SparkSession
    config: PipelineConfig
    claims: Sequence[Claimed]
    """The transforms of the job, those that have several versions once for each."""
    lock: RunLock
    """Of the checkpoint, which this process holds."""
    given: Mapping[str, Sink]
    """Sinks from Python, by name."""
    dropped: Sequence[str] = ()
    """Tags of transforms that the job no longer has."""
    started: list[RunningJob] = field(init=False, default_factory=list)
    """The job, once it is started."""

    @property
    def checkpoint(self) -> Checkpoint:
        """For what the transforms share."""
        return self.claims[0].checkpoint

    @cached_property
    def tables(self) -> StaticTables:
        """The static tables of the queries."""
        return StaticTables(self.spark, self.config, self.checkpoint)

    def _recent(self, claimed: Claimed, board: Board) -> RecentRows:
        """Collects the latest rows of a transform for the live page, but not those of its earlier versions."""
        keeper = board.recent if isinstance(board.recent, RecentKeeper) else None
        if keeper is None or claimed.record.until_us is not None:
            return RecentRows()
        stages = claimed.plan.stages
        spec = None if stages.of(LeafStage) or not stages.first_window.window else stages.first_window.window.spec
        aligned = spec.windows() if isinstance(spec, AlignedSpec) else None
        recent = RecentRows(aligned, keeper.before(claimed.plan.transform))
        keeper.keep(claimed.plan.transform, recent)
        return recent

    def start(self, trigger: Trigger, board: Board, watch: Watch | None, *, once: bool = False) -> RunningJob:
        """Start the query. `board` and `watch` receive every finished micro-batch. `once`: as of `RunningJob`."""
        stopping = threading.Event()
        sinks = [build_sinks(self._config(claimed), claimed.plan, self.given) for claimed in self.claims]
        build = partial(self._build, identified=[any(sink.wants_identity for sink in each) for each in sinks])
        dataflow = build(EXACTLY)
        self.checkpoint.note_query(dataflow.job.last_step, dataflow.sources)
        runners: dict[str, BatchRunner] = {}
        for claimed, own in zip(self.claims, sinks, strict=True):
            recent = self._recent(claimed, board)
            output, side = self._outputs(claimed, own, stopping)
            side = replace(side, recent=recent)
            self._open(claimed, dataflow, output, side, board)
            runners[claimed.checkpoint.state_tag] = self._runner(
                claimed, dataflow, output, side, recent, watch=self._hearing(claimed.plan, board, watch)
            )
        calls = DriverCalls(self.spark)
        job = RunningJob(
            plans=[claimed.plan for claimed in self.claims],
            checkpoint=self.checkpoint,
            build=build,
            dataflow=dataflow,
            runner=JobRunner(
                spark=self.spark,
                calls=calls,
                checkpoint=self.checkpoint,
                lock=self.lock,
                transforms=runners,
                dropped=self.dropped,
                job=dataflow.job,
            ),
            index=self._index(calls),
            tables=self.tables,
            topics=TopicWatch(self._streams(), self.checkpoint.topics),
            find_unreadable=self._find_unreadable,
            stopping=stopping,
            log=log_file(self.config),
            once=once,
        )
        committed = self.checkpoint.log.last_committed()
        for runner in runners.values():
            runner.output.begin(committed)
            runner.side.begin(committed)
        job.begin(trigger)
        self.started.append(job)
        return job

    def _streams(self) -> dict[str, Stream]:
        """The streams that the job reads."""
        read = [(self._config(each), name) for each in self.claims for name in each.plan.stages.input.streams]
        return {name: config.streams[name] for config, name in read if name in config.streams}

    def _config(self, claimed: Claimed) -> PipelineConfig:
        """The configuration of a transform, which may be one that the pipeline no longer has."""
        name, definition = claimed.plan.transform, claimed.record.definition
        if name in self.config.transforms or definition is None:
            return self.config
        return redefined(self.config, name, definition)

    def _outputs(
        self, claimed: Claimed, sinks: Sequence[Sink], stopping: threading.Event
    ) -> tuple[ResultOutput, SideOutput]:
        """The ways of a transform's results and side rows."""
        plan, checkpoint, record = claimed.plan, claimed.checkpoint, claimed.record
        if plan.ticks_for and not record.ticks:
            warn_of_no_ticks(plan)
        side = build_side_output(
            self.spark, self._config(claimed), plan, checkpoint=checkpoint, record=record, lock=self.lock,
            given=self.given, label=claimed.label,
        )  # fmt: skip
        output = build_result_output(
            self.spark, self.config, claimed.label, sinks, checkpoint=checkpoint, lock=self.lock, stopping=stopping
        )
        return output, side

    def _open(self, claimed: Claimed, dataflow: Dataflow, output: ResultOutput, side: SideOutput, board: Board) -> None:
        checkpoint, results = claimed.checkpoint, dataflow.results[claimed.checkpoint.state_tag]
        is_new = checkpoint.log.last_committed() < 0
        output.open(self.spark, results.columns, identified=results.has_identity, is_new=is_new)
        side.open(self.spark)
        if claimed.record.until_us is not None or claimed.leaves:
            return
        more = partial(self._status, claimed, output, side)
        board.begin(claimed.plan.transform, checkpoint.ledger.last(), more)

    def _build(self, reading: Reading, *, identified: Sequence[bool]) -> Dataflow:
        members = [
            self._member(claimed, reading, identified=wanted)
            for claimed, wanted in zip(self.claims, identified, strict=True)
        ]
        record = self.claims[0].record
        return build_dataflow(
            self.spark,
            members,
            shards=record.shards,
            feedback=True,
            ticks=record.ticks,
            cache_bytes=self.config.options.state_cache_bytes,
            overflow=self.checkpoint.overflow.make(),
            access=session_access(self.spark),
            steps=record.steps,
            sources=record.sources,
        )

    def _member(self, claimed: Claimed, reading: Reading, *, identified: bool) -> JobMember:
        checkpoint = claimed.checkpoint
        sources = pipeline_sources(
            self.spark, self._config(claimed), claimed.plan, checkpoint, tables=self.tables, reading=reading
        )
        before = follows(self.claims, claimed)
        return JobMember(
            claimed.plan, sources, checkpoint.state_tag, identified=identified, spread=claimed.record.spread,
            follows=before, is_late=before is not None or claimed.is_new, steady=self._is_steady(claimed),
        )  # fmt: skip

    def _is_steady(self, claimed: Claimed) -> bool:
        """Whether it is the only version of its transform, has all windows, and stays."""
        versions = [each for each in self.claims if each.checkpoint.tag == claimed.checkpoint.tag]
        return len(versions) == 1 and claimed.record.from_us is None and not claimed.leaves

    def _runner(
        self,
        claimed: Claimed,
        dataflow: Dataflow,
        output: ResultOutput,
        side: SideOutput,
        recent: RecentRows,
        *,
        watch: Callable[[Entry], None],
    ) -> BatchRunner:
        return BatchRunner(
            spark=self.spark,
            transform=claimed.plan.transform,
            results=dataflow.results[claimed.checkpoint.state_tag],
            checkpoint=claimed.checkpoint,
            record=claimed.record,
            output=output,
            side=side,
            lock=self.lock,
            watch=watch,
            label=claimed.label,
            version=version_of(claimed),
            keep_closed_us=claimed.plan.keep_closed_us,
            tables=self.tables.used,
            recent=recent,
            replaying=self._replaying(claimed, dataflow),
        )

    def _replaying(self, claimed: Claimed, dataflow: Dataflow) -> Replaying | None:
        """Of a transform's current version."""
        if not version_of(claimed).is_current:
            return None
        asked = Asked(self._config(claimed), claimed.plan, claimed.checkpoint, running=False)

        def evaluate(stream: str, rows: Sequence[Mapping[str, Any]], clock_us: int) -> pa.RecordBatch:
            return InputRows(asked, stream, clock_us).of_dicts(rows)

        return Replaying(claimed.checkpoint.replays, evaluate, dataflow.schemas[claimed.checkpoint.state_tag])

    def _index(self, calls: DriverCalls) -> BatchIndex:
        config, checkpoint = self.config, self.checkpoint
        return BatchIndex(calls.input_files, checkpoint.log, config.streams, config.base_dir, checkpoint.queue.path())

    def _find_unreadable(self, batch_id: int) -> dict[str, str]:
        files = self.checkpoint.log.batch_files(batch_id)
        return find_unreadable(self.spark, files, streams=self.config.streams, base=self.config.base_dir)

    def _hearing(self, plan: Plan, board: Board, watch: Watch | None) -> Callable[[Entry], None]:
        notices, name = Notices(plan), plan.transform

        def hear(entry: Entry) -> None:
            notices.hear(entry)
            board.note(name, entry)
            if watch is not None:
                watch(name, entry)

        return hear

    def _status(self, claimed: Claimed, output: ResultOutput, side: SideOutput) -> dict[str, Any]:
        """Further parts of a transform's status: the state of its sinks, where side rows go, unread input, its job."""
        routes = self._config(claimed).transforms[claimed.plan.transform].side_output.routes()
        targets = {kind: route.sink for kind, route in routes.items()}
        found = {"sinks": output.status(), "routes": targets, "side_sinks": side.status()}
        found |= {"unread": self.started[0].unread() if self.started else {}}
        return found | ({"job": claimed.record.job} if claimed.record.job else {})
