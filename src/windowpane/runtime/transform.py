"""One transform's streaming query: begun, begun again where a batch needs it, ended gracefully, stopped."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable
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
from windowpane.connectors.unreadable_files import GONE, is_damage, reading_around_damage
from windowpane.plan.build import Plan
from windowpane.runtime.failures import spark_failure
from windowpane.spark.batch import BatchRunner
from windowpane.spark.dataflow import Dataflow
from windowpane.spark.ending import end_batch
from windowpane.spark.session import prepare_session

AVAILABLE_NOW = Trigger("available_now")
_POLL_SECONDS = 0.25
_log = logging.getLogger("windowpane.run")
_ONE_AT_A_TIME = threading.Lock()
"""A query starts with the settings that it finds in the session, and they differ between queries."""


@dataclass
class RunningTransform:
    """Its query ends before a batch that another query is to read: a thread begins that, or whoever waits."""

    plan: Plan
    checkpoint: Checkpoint
    build: Callable[[Reading], Dataflow]
    dataflow: Dataflow
    runner: BatchRunner
    stopping: threading.Event
    """Set while the query is being stopped: what fails then does not count."""
    log: Path | None = None
    look_into: Callable[[int], dict[str, str]] = lambda _batch_id: {}
    """Finds the files of a batch that cannot be read."""
    index: BatchIndex | None = None
    query: StreamingQuery = field(init=False)
    _turn: threading.RLock = field(init=False, default_factory=threading.RLock)
    """Held by who ends a query or begins the next one."""
    _trigger: Trigger = field(init=False, default=AVAILABLE_NOW)
    _looked_into: int | None = field(init=False, default=None)
    _alone: int | None = field(init=False, default=None)
    """The batch that is read around damaged files, or with corrections of Spark's list of files: it alone."""
    _reading: Reading = field(init=False, default=EXACTLY)
    """Corrections for the batch that comes next, and `_built` those that `dataflow` has."""
    _built: Reading = field(init=False, default=EXACTLY)
    _raised: Exception | None = field(init=False, default=None)
    """What the last micro-batch raised here on the driver: Spark would give its text alone."""
    _between: bool = field(init=False, default=False)
    """A query has ended, or is about to, and the next one has not begun."""

    @property
    def active(self) -> bool:
        """Whether the query runs, or will in a moment. May be asked from within a micro-batch."""
        return self._between or bool(self.query.isActive)

    def begin(self, trigger: Trigger) -> None:
        """Start the query from its checkpoint."""
        with self._turn, _ONE_AT_A_TIME:
            self._trigger = trigger
            self._take_corrections()
            prepare_session(self.runner.spark, self.dataflow.stages.shards)
            last = self.checkpoint.last_committed()
            around = any(reason != GONE for reason in self.checkpoint.damaged(last + 1).values())
            self._alone = last + 1 if around or self._reading != EXACTLY else None
            self._reading = EXACTLY
            self.runner.resumed = last + 1 if last >= 0 else None
            writer = self._writer(trigger)
            self._raised = None
            self.stopping.clear()
            with reading_around_damage(self.runner.spark) if around else contextlib.nullcontext():
                self.query = writer.start()
            self._between = False

    def _take_corrections(self) -> None:
        if self._reading != self._built:
            self.dataflow, self._built = self.build(self._reading), self._reading

    def _writer(self, trigger: Trigger) -> DataStreamWriter:
        name = str(self.checkpoint.folder)  # two pipelines of one session may both have a transform of this name
        writer = self.dataflow.packed.writeStream.outputMode("append").queryName(name)
        writer = writer.option("checkpointLocation", self.checkpoint.spark).foreachBatch(self._run_batch)
        if self._alone is not None:
            # Spark lists no further files: this query would list others than the next.
            return writer.trigger(once=True)
        if trigger.kind == "available_now":
            return writer.trigger(availableNow=True)
        if trigger.every_us:
            return writer.trigger(processingTime=f"{trigger.every_us // 1000} milliseconds")
        return writer

    def _run_batch(self, packed: DataFrame, batch_id: int) -> None:
        if self.index is not None and not self._is_listed_right(self.index, batch_id):
            raise self._let_begin_again()
        try:
            self.runner.run(packed, batch_id)
        except Exception as raised:
            self._raised = raised
            raise
        if self._alone is not None:
            self._let_begin_again()

    def _let_begin_again(self) -> _BeginAgainError:
        self._raised, self._between = _BeginAgainError(), True
        threading.Thread(target=self._begin_again, name="windowpane-begin-again", daemon=True).start()
        return self._raised

    def _is_listed_right(self, index: BatchIndex, batch_id: int) -> bool:
        noted = self.checkpoint.damaged(batch_id)
        found = index.check(batch_id, noted)
        gone = dict.fromkeys(found.gone, GONE)
        if not gone.keys() <= noted.keys():
            self.checkpoint.note_damaged(batch_id, gone | noted)
        self._reading = found.reading if self._built == EXACTLY else EXACTLY
        return self._reading == EXACTLY

    def _begin_again(self) -> None:
        """Once the query has ended, unless someone has been faster or wants it to stay ended."""
        with self._turn:
            query = self.query
        with contextlib.suppress(PySparkException):
            query.awaitTermination()
        # What fails here fails again for the one who waits for the end, and is told to them.
        with self._turn, contextlib.suppress(Exception):
            if self.query is query and self.stopping.is_set():
                self._between = False
            elif self.query is query:
                self._gone_on()

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
            begins_again = isinstance(self._raised, _BeginAgainError)
            if (failed is None and not begins_again) or (begins_again and self.stopping.is_set()):
                return True
            if self.query is query and not self._gone_on():
                reason = self._raised or failed
                assert reason is not None
                raise spark_failure(reason, self.plan.transform, self.log) from failed
        return self.ended() if seconds is None else False

    def _gone_on(self) -> bool:
        """After a failure: begun again, if it was meant to be, or if it was a file that cannot be read."""
        batch_id = self.checkpoint.last_committed() + 1
        if not isinstance(self._raised, _BeginAgainError):
            if self._raised is None or not is_damage(self._raised) or self._looked_into == batch_id:
                return False
            self._looked_into = batch_id
            found = self.look_into(batch_id)
            if found:
                self.checkpoint.note_damaged(batch_id, self.checkpoint.damaged(batch_id) | found)
        self.begin(self._trigger)
        return True

    def stop(self) -> None:
        """Cancel the micro-batch that runs: it is not committed, and comes again at the next start."""
        with self._turn:
            self.stopping.set()
            self._between = False
            # A query that has failed says so again when it is stopped; Spark may be gone altogether.
            with contextlib.suppress(PySparkException, Py4JError, OSError):
                self.query.stop()

    def drain(self, asked_to_stop: threading.Event) -> bool:
        """Process what is there, emit everything open, then never start again. False if asked to stop before that."""
        with self._turn:
            self._trigger = AVAILABLE_NOW
            if self.active:
                self.stop()
                self.begin(AVAILABLE_NOW)
        if not (self._ended_unless(asked_to_stop) and self._go_round(asked_to_stop)):
            return False
        last = self.checkpoint.last_committed()
        entry = self.checkpoint.ledger.read(last)
        if entry is not None:
            spark = self.runner.spark
            packed = end_batch(spark, self.checkpoint.spark, self.dataflow.stages, last, entry.clock_us)
            self.runner.run(packed, last + 1, final=True)
        self.settle(for_good=True)
        self.checkpoint.finish(last + 1)
        shutil.rmtree(self.checkpoint.reinject, ignore_errors=True)
        return True

    def _ended_unless(self, asked_to_stop: threading.Event) -> bool:
        while not self.ended(_POLL_SECONDS):
            if asked_to_stop.is_set():
                return False
        return True

    def _go_round(self, asked_to_stop: threading.Event) -> bool:
        """Read again what waits for it; each round brings a row nearer to its last."""
        done = None
        while (last := self.checkpoint.last_committed()) != done:
            entry, done = self.checkpoint.ledger.read(last), last
            if entry is not None and entry.reinjecting:
                self.begin(AVAILABLE_NOW)
                if not self._ended_unless(asked_to_stop):
                    return False
        return True

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
            _log.warning("transform `%s`: side sink `%s` has %s undelivered rows: %s", name, sink, f"{rows:,}", what)


class _BeginAgainError(Exception):
    """Ends a query before it reads a batch that another query is to read."""

    def __str__(self) -> str:
        return "not a failure: windowpane restarts this query at once to read the next batch differently"


def _is_a_failure(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], _BeginAgainError)


# Py4J logs what a callback raises, whatever it is.
logging.getLogger("py4j.clientserver").addFilter(_is_a_failure)
