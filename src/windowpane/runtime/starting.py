"""Builds the running parts of a transform: its sinks, its side output, its dataflow and its query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pyspark.sql import SparkSession

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import PipelineConfig, Trigger
from windowpane.connectors.batch_index import BatchIndex
from windowpane.connectors.hadoop import session_access
from windowpane.connectors.sinks import Sink
from windowpane.connectors.sources import EXACTLY, Reading
from windowpane.connectors.unreadable_files import find_unreadable
from windowpane.plan.build import Plan
from windowpane.runtime.location import log_file
from windowpane.runtime.notices import Notices, warn_of_no_ticks
from windowpane.runtime.refreshing import StaticTables
from windowpane.runtime.routes import build_result_output, build_side_output, build_sinks
from windowpane.runtime.sources import pipeline_sources
from windowpane.runtime.status import Board
from windowpane.runtime.transform import RunningTransform
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow, build_dataflow
from windowpane.spark.driver_calls import DriverCalls
from windowpane.spark.result_output import ResultOutput
from windowpane.spark.side_output import SideOutput

Watch = Callable[[str, Entry], None]


@dataclass(frozen=True, kw_only=True)
class TransformStart:
    """What is known when a transform starts. `record`: the plan that the checkpoint has taken on."""

    spark: SparkSession
    config: PipelineConfig
    plan: Plan
    checkpoint: Checkpoint
    record: PlanRecord
    lock: RunLock
    """Of the checkpoint, which this process holds."""
    given: Mapping[str, Sink]
    """Sinks from Python, by name."""

    @cached_property
    def tables(self) -> StaticTables:
        """The static tables of the query."""
        return StaticTables(self.spark, self.config, self.checkpoint)

    def start(self, trigger: Trigger, board: Board, watch: Watch | None) -> RunningTransform:
        """Start the query. `board` and `watch` receive every finished micro-batch."""
        plan, checkpoint, stopping = self.plan, self.checkpoint, threading.Event()
        sinks = build_sinks(self.config, plan, self.given)
        build = partial(self._build, identified=any(sink.wants_identity for sink in sinks))
        dataflow = build(EXACTLY)
        if plan.ticks_for and not self.record.ticks:
            warn_of_no_ticks(plan)
        side = build_side_output(
            self.spark, self.config, plan, checkpoint=checkpoint, record=self.record, lock=self.lock, given=self.given
        )
        output = build_result_output(
            self.spark, self.config, plan, sinks, checkpoint=checkpoint, lock=self.lock, stopping=stopping
        )
        committed = checkpoint.log.last_committed()
        results = dataflow.results
        output.open(self.spark, results.columns, identified=results.has_identity, is_new=committed < 0)
        side.open(self.spark)
        board.begin(plan.transform, checkpoint.ledger.last(), partial(self._sink_status, output, side))
        calls = DriverCalls(self.spark)
        transform = RunningTransform(
            plan=plan,
            checkpoint=checkpoint,
            build=build,
            dataflow=dataflow,
            runner=self._runner(dataflow, calls, output, side, watch=self._hearing(board, watch)),
            index=self._index(calls),
            tables=self.tables,
            find_unreadable=self._find_unreadable,
            stopping=stopping,
            log=log_file(self.config),
        )
        output.begin(committed)
        side.begin(committed)
        transform.begin(trigger)
        return transform

    def _build(self, reading: Reading, *, identified: bool) -> Dataflow:
        sources = pipeline_sources(
            self.spark, self.config, self.plan, self.checkpoint, tables=self.tables, reading=reading
        )
        return build_dataflow(
            self.spark,
            self.plan,
            sources,
            shards=self.record.shards,
            feedback=True,
            ticks=self.record.ticks,
            identified=identified,
            spread=self.record.spread,
            cache_bytes=self.config.options.state_cache_bytes,
            overflow=self.checkpoint.overflow.make(),
            access=session_access(self.spark),
        )

    def _runner(
        self,
        dataflow: Dataflow,
        calls: DriverCalls,
        output: ResultOutput,
        side: SideOutput,
        *,
        watch: Callable[[Entry], None],
    ) -> BatchRunner:
        return BatchRunner(
            spark=self.spark,
            calls=calls,
            transform=self.plan.transform,
            results=dataflow.results,
            checkpoint=self.checkpoint,
            record=self.record,
            output=output,
            side=side,
            lock=self.lock,
            watch=watch,
            tables=self.tables.used,
        )

    def _index(self, calls: DriverCalls) -> BatchIndex:
        config, checkpoint = self.config, self.checkpoint
        return BatchIndex(calls.input_files, checkpoint.log, config.streams, config.base_dir, checkpoint.queue.path())

    def _find_unreadable(self, batch_id: int) -> dict[str, str]:
        files = self.checkpoint.log.batch_files(batch_id)
        return find_unreadable(self.spark, files, streams=self.config.streams, base=self.config.base_dir)

    def _hearing(self, board: Board, watch: Watch | None) -> Callable[[Entry], None]:
        notices, name = Notices(self.plan), self.plan.transform

        def hear(entry: Entry) -> None:
            notices.hear(entry)
            board.note(name, entry)
            if watch is not None:
                watch(name, entry)

        return hear

    def _sink_status(self, output: ResultOutput, side: SideOutput) -> dict[str, Any]:
        """The part of the status about sinks: their state, and where side rows go."""
        routes = self.config.transforms[self.plan.transform].side_output.routes()
        targets = {kind: route.sink for kind, route in routes.items()}
        return {"sinks": output.status(), "routes": targets, "side_sinks": side.status()}
