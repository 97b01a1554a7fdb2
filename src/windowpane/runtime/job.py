"""A job's streaming query: started, restarted if a batch must be read differently, and stopped."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from windowpane.checkpoint.transform import Checkpoint
from windowpane.config import Trigger
from windowpane.connectors.batch_index import BatchIndex
from windowpane.connectors.sources import EXACTLY, Reading
from windowpane.connectors.unreadable_files import GONE, is_unreadable_file, skipping_unreadable
from windowpane.errors import gist
from windowpane.plan.build import Plan
from windowpane.runtime.batch_gate import BatchGate
from windowpane.runtime.failures import is_lost_executor, spark_failure
from windowpane.runtime.refreshing import StaticTables
from windowpane.runtime.topic_watch import TopicWatch
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow
from windowpane.spark.foreach_batch import foreach_batch
from windowpane.spark.job_batch import JobRunner
from windowpane.spark.session import prepare_session

AVAILABLE_NOW = Trigger("available_now")
_log = logging.getLogger("windowpane.run")
_UNREAD_SECONDS = 1.0
_ONE_AT_A_TIME = threading.Lock()
"""A query starts with the settings that it finds in the session, and they differ between queries."""


@dataclass(frozen=True)
class RunningTransform:
    """A transform of a running job."""

    plan: Plan
    checkpoint: Checkpoint
    runner: BatchRunner
    job: RunningJob = field(repr=False)

    @property
    def query(self) -> StreamingQuery:
        """Spark's query, which may run other transforms too."""
        return self.job.query


@dataclass(kw_only=True)
class RunningJob:
    """Its query ends before a batch that must be read differently; a thread, or whoever waits, starts the next one."""

    plans: Sequence[Plan]
    checkpoint: Checkpoint
    """Of any of the transforms: the parts that they share are used."""
    build: Callable[[Reading], Dataflow]
    runner: JobRunner
    index: BatchIndex
    tables: StaticTables
    topics: TopicWatch
    find_unreadable: Callable[[int], dict[str, str]]
    """Finds the files of a batch that cannot be read, with the reason for each."""
    stopping: threading.Event
    """Set while the query is being stopped: failures do not count then."""
    log: Path
    dataflow: Dataflow
    once: bool = False
    """It runs one micro-batch and then ends: the one that was begun and not completed."""
    gate: BatchGate = field(init=False, default_factory=BatchGate)
    query: StreamingQuery = field(init=False)
    _turn: threading.RLock = field(init=False, default_factory=threading.RLock)
    """Held while a query is ended or started."""
    _trigger: Trigger = field(init=False, default=AVAILABLE_NOW)
    _resumed: int | None = field(init=False, default=None)
    """The first batch after a restart. An attempt that was never committed may have written rows under its id."""
    _first: int | None = field(init=False, default=None)
    """The first batch of this query: an earlier one may have run it already."""
    _refreshed: bool = field(init=False, default=False)
    """A static table has a new version, and `dataflow` reads the old one."""
    _examined: int | None = field(init=False, default=None)
    """The last batch whose files were searched for unreadable ones."""
    _planned: int | None = field(init=False, default=None)
    """The last batch that another process had planned."""
    _lost_executors: int | None = field(init=False, default=None)
    """The last batch that Spark gave up because it lost executors."""
    _alone: int | None = field(init=False, default=None)
    """The batch that this query reads and then ends: it skips unreadable files, or corrects Spark's list of files."""
    _reading: Reading = field(init=False, default=EXACTLY)
    """Corrections for the next batch. `_built` are those of `dataflow`."""
    _built: Reading = field(init=False, default=EXACTLY)
    _raised: Exception | None = field(init=False, default=None)
    """What the last micro-batch raised on the driver: Spark would pass on its text only."""
    _unread: dict[str, int] = field(init=False, default_factory=dict)
    _unread_at: float = field(init=False, default=float("-inf"))
    _between: bool = field(init=False, default=False)
    """A query has ended, or is about to, and the next one has not started."""

    @property
    def name(self) -> str:
        """For messages."""
        return "`, `".join(plan.transform for plan in self.plans)

    @property
    def transforms(self) -> list[RunningTransform]:
        """In the order of the job."""
        found = zip(self.plans, self.runner.transforms.values(), strict=True)
        return [RunningTransform(plan, runner.checkpoint, runner, self) for plan, runner in found]

    @property
    def active(self) -> bool:
        """Whether the query runs, or will in a moment. May be called from within a micro-batch."""
        return self._between or bool(self.query.isActive)

    def unread(self) -> dict[str, int]:
        """As of `DriverCalls.unread`, asked for once a second at most. May be called from any thread."""
        if time.monotonic() > self._unread_at + _UNREAD_SECONDS:
            self._unread_at = time.monotonic()
            with contextlib.suppress(Exception):  # the query ends, or Spark is gone: nothing depends on it
                self._unread = self.runner.calls.unread(str(self.query.id))
        return self._unread

    def begin(self, trigger: Trigger) -> None:
        """Start the query from its checkpoint."""
        with self._turn, _ONE_AT_A_TIME:
            self._trigger = trigger
            if self._reading != self._built or self._refreshed:
                self.dataflow, self._built = self.build(self._reading), self._reading
                self._refreshed = False
            prepare_session(self.runner.spark, self.dataflow.job.shards, self.checkpoint.spark)
            last = self.checkpoint.log.last_committed()
            skips = any(reason != GONE for reason in self.checkpoint.unreadable.of(last + 1).values())
            self._alone = last + 1 if skips or self._reading != EXACTLY else None
            self._reading = EXACTLY
            self._resumed = last + 1 if last >= 0 else None
            self._first = last + 1
            writer = self._writer(trigger)
            self._raised = None
            self.stopping.clear()
            with skipping_unreadable(self.runner.spark) if skips else contextlib.nullcontext():
                self.query = writer.start()
            self._between = False

    def _writer(self, trigger: Trigger) -> DataStreamWriter:
        name = self.checkpoint.job_address  # two pipelines of one session may both have a transform of this name
        writer = self.dataflow.packed.writeStream.outputMode("append").queryName(name)
        writer = foreach_batch(writer.option("checkpointLocation", self.checkpoint.spark), self._run_batch)
        if self._alone is not None or self.once:
            # Spark lists no further files: this query would list others than the next.
            return writer.trigger(once=True)
        if trigger.kind == "available_now":
            return writer.trigger(availableNow=True)
        if trigger.every_us:
            return writer.trigger(processingTime=f"{trigger.every_us // 1000} milliseconds")
        return writer

    def _run_batch(self, packed: DataFrame, batch_id: int) -> None:
        with self.gate.batch():
            self._run_next(packed, batch_id)

    def _run_next(self, packed: DataFrame, batch_id: int) -> None:
        if not self._is_listed_right(batch_id) or self._has_new_tables(batch_id):
            raise self._let_begin_again()
        try:
            self.topics.check()
            self.run_batch(packed, batch_id)
        except Exception as raised:
            self._raised = raised
            raise
        if self._alone is not None:
            self._let_begin_again()

    def run_batch(self, packed: DataFrame, batch_id: int, *, final: bool = False) -> None:
        """Process one batch of the merge stage's output."""
        self.runner.run(packed, batch_id, resumed=batch_id == self._resumed, final=final)

    def _has_new_tables(self, batch_id: int) -> bool:
        """Whether a table has been read again, for this batch on. A batch that may have run before keeps its tables."""
        if batch_id == self._first or self._alone is not None:
            return False
        self._refreshed = self.tables.refresh(batch_id)
        return self._refreshed

    def _let_begin_again(self) -> _BeginAgainError:
        self._raised, self._between = _BeginAgainError(), True
        threading.Thread(target=self._begin_again, name="windowpane-begin-again", daemon=True).start()
        return self._raised

    def _is_listed_right(self, batch_id: int) -> bool:
        """Whether Spark reads exactly the files of the batch. Files that are gone are recorded."""
        noted = self.checkpoint.unreadable.of(batch_id)
        found = self.index.check(batch_id, noted)
        gone = {path: GONE for path in found.gone if path not in noted}
        if gone:
            self.checkpoint.unreadable.record(batch_id, gone)
        self._reading = found.reading if self._built == EXACTLY else EXACTLY
        return self._reading == EXACTLY

    def _begin_again(self) -> None:
        """Once the query has ended, unless another thread was faster or the query is to stay ended."""
        with self._turn:
            query = self.query
        with contextlib.suppress(PySparkException):
            query.awaitTermination()
        # A failure here occurs again for whoever waits for the end, and is raised there.
        with self._turn, contextlib.suppress(Exception):
            if self.query is query and self.stopping.is_set():
                self._between = False
            elif self.query is query:
                self._continues()

    def ended(self, seconds: float | None = None) -> bool:
        """Whether the query has ended by itself, within `seconds` if given; raises the reason if it has failed."""
        query, failed = self.query, None
        try:
            # Takes fractions of a second too.
            if not query.awaitTermination(seconds) and seconds is not None:  # type: ignore[arg-type]
                return False
        except PySparkException as raised:
            failed = raised
        with self._turn:
            if self.query is query and self._has_ended(failed):
                return True
        return self.ended() if seconds is None else False

    def has_delivered(self, seconds: float) -> bool:
        """Whether the query has ended by itself, and sinks have taken its results, within `seconds`.

        Raises the reason if the query has failed, or if results can never be delivered.
        """
        outputs = [each.output for each in self.runner.transforms.values()]
        for output in outputs:
            output.check()
        return self.ended(seconds) and all(output.caught_up(seconds) for output in outputs)

    def _has_ended(self, failed: Exception | None) -> bool:
        """Whether the last query, which has ended, is to stay so. Else it is restarted, or the reason is raised."""
        begins_again = isinstance(self._raised, _BeginAgainError)
        if (failed is None and not begins_again) or (begins_again and self.stopping.is_set()):
            return True
        if not self._continues(failed):
            self.runner.lock.check()  # what fails because another process has taken over has that reason
            reason = self._raised or failed
            assert reason is not None
            raise spark_failure(reason, self.name, self.log) from failed
        return False

    def _continues(self, failed: Exception | None = None) -> bool:
        """Restart an ended query if it was meant to be restarted, or if another attempt at its batch may succeed."""
        batch_id = self.checkpoint.log.last_committed() + 1
        if not isinstance(self._raised, _BeginAgainError) and not self._may_succeed(batch_id, failed):
            return False
        self.begin(self._trigger)
        return True

    def _may_succeed(self, batch_id: int, failed: Exception | None) -> bool:
        """Whether a batch failed for a reason that is gone the next time. Each reason counts once per batch.

        A process that has lost its lease may have planned the batch at the last moment. It did not run the batch, and
        this one runs it as it is planned. Lost executors are replaced. Files that cannot be read are noted.
        """
        if failed is not None and self._planned != batch_id and _was_planned_by_another(failed):
            self.runner.lock.check()
            self._planned = batch_id
            return True
        reason = self._raised or failed
        if reason is not None and is_lost_executor(reason) and batch_id != self._lost_executors:
            self._lost_executors = batch_id
            _log.warning("Spark lost executors, micro-batch %d is repeated: %s", batch_id, gist(reason))
            return not self.stopping.is_set()
        if self._raised is None or not is_unreadable_file(self._raised) or self._examined == batch_id:
            return False
        self._examined = batch_id
        found = self.find_unreadable(batch_id)
        if found:
            self.checkpoint.unreadable.record(batch_id, found)
        return True

    def finish_input(self) -> None:
        """Process the input that is available now, then end."""
        with self._turn:
            self._trigger = AVAILABLE_NOW
            if self.active:
                self.stop()
                self.begin(AVAILABLE_NOW)

    def stop(self) -> None:
        """Cancel the running micro-batch: it is not committed, and the next start replays it."""
        with self._turn:
            self.stopping.set()
            self._between = False
            # A query that has failed raises that again when it is stopped; Spark may be gone altogether.
            with contextlib.suppress(PySparkException, Py4JError, OSError):
                self.query.stop()


class _BeginAgainError(Exception):
    """Ends a query before it reads a batch that another query is to read."""

    def __str__(self) -> str:
        return "not a failure: windowpane restarts this query at once to read the next batch differently"


def _was_planned_by_another(failed: Exception) -> bool:
    """Spark finds an entry in one of its logs that it is about to write."""
    return any(text in str(failed) for text in ("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log"))


def _is_a_failure(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], _BeginAgainError)


# Py4J logs what a callback raises, whatever it is.
logging.getLogger("py4j.clientserver").addFilter(_is_a_failure)
