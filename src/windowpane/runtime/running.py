"""A started pipeline: its streaming queries, how they are waited for, ended gracefully and stopped."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from windowpane.config import Trigger
from windowpane.connectors.damage import is_damage, reading_around_damage
from windowpane.observe.endpoint import MetricsEndpoint
from windowpane.plan.build import Plan
from windowpane.runtime.checkpoint import Checkpoint, RunLock
from windowpane.runtime.failures import spark_failure
from windowpane.runtime.status import Board
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow
from windowpane.spark.ending import end_batch
from windowpane.spark.ledger import Entry

AVAILABLE_NOW = Trigger("available_now")
_log = logging.getLogger("windowpane.run")
_POLL_SECONDS = 0.25


@dataclass
class RunningTransform:
    """One transform's streaming query."""

    plan: Plan
    checkpoint: Checkpoint
    dataflow: Dataflow
    runner: BatchRunner
    stopping: threading.Event
    """Set while the query is being stopped: what fails then does not count."""
    log: Path | None = None
    look_into: Callable[[int], dict[str, str]] = lambda _batch_id: {}
    """Finds the files of a batch that cannot be read."""
    query: StreamingQuery = field(init=False)
    _trigger: Trigger = field(init=False, default=AVAILABLE_NOW)
    _looked_into: int | None = field(init=False, default=None)
    _alone: int | None = field(init=False, default=None)
    """The batch that is read around damaged files: it alone, so that no other file is passed over in silence."""
    _raised: Exception | None = field(init=False, default=None)
    """What the last micro-batch raised here on the driver: Spark would give its text alone."""

    def begin(self, trigger: Trigger) -> None:
        """Start the query from its checkpoint."""
        self._trigger = trigger
        last = self.checkpoint.last_committed()
        self._alone = last + 1 if self.checkpoint.damaged(last + 1) else None
        self.runner.resumed = last + 1 if last >= 0 else None
        name = str(self.checkpoint.folder)  # two pipelines of one session may both have a transform of this name
        writer = self.dataflow.packed.writeStream.outputMode("append").queryName(name)
        writer = writer.option("checkpointLocation", self.checkpoint.spark).foreachBatch(self._run_batch)
        if trigger.kind == "available_now":
            writer = writer.trigger(availableNow=True)
        elif trigger.every_us:
            writer = writer.trigger(processingTime=f"{trigger.every_us // 1000} milliseconds")
        self._raised = None
        self.stopping.clear()
        with reading_around_damage(self.runner.spark) if self._alone is not None else contextlib.nullcontext():
            self.query = writer.start()

    def _run_batch(self, packed: DataFrame, batch_id: int) -> None:
        if self._alone is not None and batch_id != self._alone:
            self._raised = _DamageIsBehindError()
            raise self._raised
        try:
            self.runner.run(packed, batch_id)
        except Exception as raised:
            self._raised = raised
            raise

    def ended(self, seconds: float | None = None) -> bool:
        """Whether the query has ended by itself, within `seconds` if given; raises the reason if it has failed."""
        try:
            if seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(seconds))  # type: ignore[arg-type]  # takes fractions too
        except PySparkException as failed:
            if not self._gone_on():
                raise spark_failure(self._raised or failed, self.plan.transform, self.log) from failed
        return self.ended() if seconds is None else False

    def _gone_on(self) -> bool:
        """After a failure: started again, if it was a file that cannot be read, or the batch after one with such."""
        batch_id = self.checkpoint.last_committed() + 1
        if not isinstance(self._raised, _DamageIsBehindError):
            if self._raised is None or not is_damage(self._raised) or self._looked_into == batch_id:
                return False
            self._looked_into = batch_id
            found = self.look_into(batch_id)
            if found:
                self.checkpoint.note_damaged(batch_id, found)
        self.begin(self._trigger)
        return True

    def stop(self) -> None:
        """Cancel the micro-batch that runs: it is not committed, and comes again at the next start."""
        self.stopping.set()
        with contextlib.suppress(PySparkException):  # a query that has failed says so again when it is stopped
            self.query.stop()

    def drain(self) -> Entry | None:
        """Process what is there, emit everything open, then never start again."""
        if self.query.isActive:
            self.stop()
            self.begin(AVAILABLE_NOW)
        self.ended()
        self._go_round()
        last = self.checkpoint.last_committed()
        entry = self.checkpoint.ledger.read(last)
        if entry is not None:
            spark = self.runner.spark
            packed = end_batch(spark, self.checkpoint.spark, self.dataflow.stages, last, entry.clock_us)
            self.runner.run(packed, last + 1, final=True)
        self.settle(for_good=True)
        self.checkpoint.finish(last + 1)
        shutil.rmtree(self.checkpoint.reinject, ignore_errors=True)
        return self.checkpoint.ledger.read(last + 1)

    def _go_round(self) -> None:
        """Read again what waits for it; each round brings a row nearer to its last."""
        done = None
        while (last := self.checkpoint.last_committed()) != done:
            entry, done = self.checkpoint.ledger.read(last), last
            if entry is not None and entry.reinjecting:
                self.begin(AVAILABLE_NOW)
                self.ended()

    def settle(self, *, for_good: bool) -> None:
        """Let side rows reach their sinks, as long as these take them; say what is left."""
        for sink, rows in self.runner.side.settle(for_good=for_good).items():
            if for_good:
                path = self.checkpoint.folder / f"undelivered-{sink}.jsonl"
                self.runner.side.channels[sink].write_rest(path)
                what = f"they are in {path}"
            else:
                what = f"they stay in {self.checkpoint.outbox / sink}, and the next start delivers them"
            name = self.plan.transform
            _log.warning("transform `%s`: side sink `%s` has not taken %s rows: %s", name, sink, f"{rows:,}", what)


class _DamageIsBehindError(Exception):
    """Ends a query that passes over damaged files, before it reads the batch after the one that has them."""


class RunningPipeline:
    """A started pipeline. `drain` ends it gracefully, `stop` quickly: then it can be started again."""

    def __init__(
        self,
        spark: SparkSession,
        transforms: list[RunningTransform],
        lock: RunLock,
        board: Board,
        *,
        owns_session: bool,
        metrics: MetricsEndpoint | None = None,
    ) -> None:
        self.spark, self.transforms, self.board = spark, transforms, board
        self._lock, self._owns_session = lock, owns_session
        self.metrics = metrics

    @property
    def active(self) -> bool:
        return any(transform.query.isActive for transform in self.transforms)

    def wait(self, timeout: float | None = None) -> bool:
        """Until all transforms have ended by themselves (available_now). False when time is up.

        Raises what a transform failed with; the others go on until `stop`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            running = [transform for transform in self.transforms if not transform.ended(1e-3)]
            if not running:
                return True
            left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if left <= 1e-3:
                return False
            running[0].ended(left)

    def status(self) -> dict[str, Entry | None]:
        """The last ledger entry of each transform."""
        return {transform.plan.transform: transform.checkpoint.ledger.last() for transform in self.transforms}

    def drain(self) -> dict[str, Entry | None]:
        """Graceful end: what is there is processed, every open window emitted, and the checkpoint finished."""
        self.board.become("draining")
        try:
            ended = {transform.plan.transform: transform.drain() for transform in self.transforms}
        except Exception as failed:
            raise self.fail(failed) from failed
        self.board.become("finished")
        self._close()
        return ended

    def stop(self) -> None:
        """Quick stop: nothing is emitted, everything stays in the checkpoint."""
        self._stop_queries()
        self.board.become("stopped")
        self._close()

    def fail(self, failed: BaseException) -> Exception:
        """Stop what still runs after a failure, and give the error to show."""
        log = self.transforms[0].log if self.transforms else None
        reason = spark_failure(failed, None, log)
        self._stop_queries()
        self.board.become("failed", reason.as_dict())
        self._close()
        return reason

    def _stop_queries(self) -> None:
        for transform in self.transforms:
            transform.stop()
        for transform in self.transforms:
            transform.settle(for_good=False)

    def _close(self) -> None:
        for transform in self.transforms:
            transform.runner.side.close()
            for sink in transform.runner.sinks:
                sink.close()
        if self.metrics is not None:
            self.metrics.close()
        if self._owns_session:
            self.spark.stop()
        self._lock.release()
