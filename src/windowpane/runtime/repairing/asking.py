"""`windowpane repair` and `replay`: by the process that runs the pipeline, or by this one if none does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windowpane.checkpoint.control import SideRowsCommand, SideRowsRequest, new_id
from windowpane.checkpoint.questions import answered
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import transform_checkpoint
from windowpane.errors import StateError
from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.repairing.repairing import Repair, Repaired, RepairOptions
from windowpane.runtime.repairing.replaying import Replayed, foresee_replay, replay_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windowpane.runtime.pipeline import Pipeline


@dataclass(frozen=True)
class Asking:
    """Somebody wants a transform to be repaired. `tell`: notes for the user."""

    asked: Asked
    options: RepairOptions
    store: Store
    """The checkpoint of the whole pipeline."""
    pipeline: Callable[[], Pipeline]
    """Loads Spark's modules."""
    tell: Callable[[str], None] = lambda _: None

    def repaired(self, timeout: float) -> dict[str, Any]:
        """What a repair has done, as of `Repaired.as_dict`. StateError if the running pipeline does not answer."""
        if self.options.dry_run:
            return Repair(self.asked, self.options).foreseen().as_dict()
        deadline = time.monotonic() + timeout
        while True:
            if not RunLock(self.store).held():
                return self.repaired_here().as_dict()
            answer = self._answer("repair", deadline)
            if answer is not None:
                return dict(answer.get("result") or {})

    def replayed(self, timeout: float) -> dict[str, Any]:
        """The same of a replay, as of `Replayed.as_dict`."""
        if self.options.dry_run:
            return foresee_replay(self.asked, self.options).as_dict()
        deadline = time.monotonic() + timeout
        while True:
            if not RunLock(self.store).held():
                return self.replayed_here().as_dict()
            answer = self._answer("replay", deadline)
            if answer is not None:
                return dict(answer.get("result") or {})

    def replayed_here(self) -> Replayed:
        """By this process. StateError while another one runs on the checkpoint."""
        lock = RunLock(self.store)
        own = transform_checkpoint(lock.acquire(), self.asked.name)
        try:
            return replay_rows(replace(self.asked, checkpoint=own, running=False), self.options)
        finally:
            lock.release()

    def _answer(self, command: SideRowsCommand, deadline: float) -> dict[str, Any] | None:
        self.tell("the pipeline runs: it carries this out between two micro-batches …")
        options = self.options
        request = SideRowsRequest(command, self.asked.name, options.sink, options.where, options.stream, new_id())
        try:
            return answered(self.store, RunLock(self.store), request, deadline)
        except StateError as failed:
            if failed.code != "NO_ANSWER":
                raise
            hint = "wait longer with --timeout, and ask again: a row that was taken is not taken twice"
            raise StateError(failed.code, failed.message, hint) from None

    def repaired_here(self, spark: SparkSession | None = None) -> Repaired:
        """By this process. StateError while another one runs on the checkpoint."""
        lock = RunLock(self.store)
        own = transform_checkpoint(lock.acquire(), self.asked.name)
        try:
            pipeline = self.pipeline()
            asked = replace(self.asked, checkpoint=own, running=False)
            return Repair(asked, self.options, pipeline.sinks).carry_out(lock, lambda: self._session(pipeline, spark))
        finally:
            lock.release()

    @contextmanager
    def _session(self, pipeline: Pipeline, given: SparkSession | None) -> Iterator[SparkSession]:
        if given is not None:
            yield given
            return
        from windowpane.runtime.failures import spark_failure  # noqa: PLC0415  # loads PySpark

        self.tell("starting Spark …")
        session = pipeline.session(None)
        try:
            yield session
        except Exception as failed:
            raise spark_failure(failed, None, pipeline.log) from failed
        finally:
            session.stop()
