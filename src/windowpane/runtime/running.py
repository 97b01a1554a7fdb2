"""A started pipeline: waits for its jobs, drains and stops them together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import take_savepoint
from windowpane.checkpoint.savepoints import Savepoint
from windowpane.checkpoint.store import Store
from windowpane.config import PipelineConfig
from windowpane.connectors.sinks import Sink
from windowpane.errors import StateError, WindowpaneError, nearest
from windowpane.observe.endpoint import MetricsEndpoint
from windowpane.runtime.asking.asked import current
from windowpane.runtime.draining import drain, settle
from windowpane.runtime.failures import spark_failure
from windowpane.runtime.job import RunningJob, RunningTransform
from windowpane.runtime.repairing.repairing import Repair, Repaired, RepairOptions, begun_repairs, deliver_begun
from windowpane.runtime.repairing.replaying import Replayed, replay_rows
from windowpane.runtime.status import Board

_POLL_SECONDS = 0.25


class RunningPipeline:
    """A started pipeline. `drain` ends it gracefully. `stop` ends it quickly; it can be started again."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        store: Store,
        lock: RunLock,
        board: Board,
        log: Path,
        owns_session: bool,
        metrics: MetricsEndpoint | None = None,
        config: PipelineConfig | None = None,
        given: Mapping[str, Sink] | None = None,
    ) -> None:
        self.spark, self.board, self.metrics = spark, board, metrics
        self._config, self._given = config, given or {}
        self.store = store
        """The checkpoint, to be changed as long as this process holds its lock."""
        self.jobs: list[RunningJob] = []
        self._lock, self._log, self._owns_session = lock, log, owns_session

    def add(self, job: RunningJob) -> None:
        """A job has started."""
        self.jobs.append(job)

    @property
    def transforms(self) -> list[RunningTransform]:
        """Of all jobs."""
        return [transform for job in self.jobs for transform in job.transforms]

    @property
    def active(self) -> bool:
        return any(job.active for job in self.jobs)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all transforms have ended by themselves (available_now), and sinks have taken all results.

        False after the timeout.
        Raises what a transform failed with, and StateError `LEASE_LOST` if another process has taken over the
        checkpoint; the others go on until `stop`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._lock.check()
            if self.board.recent is not None:
                self.board.recent.save()
            running = [job for job in self.jobs if not job.has_delivered(1e-3)]
            if not running:
                return True
            left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if left <= 1e-3:
                return False
            running[0].has_delivered(left)

    def status(self) -> dict[str, Entry | None]:
        """The last ledger entry of each transform."""
        return {transform.plan.transform: transform.checkpoint.ledger.last() for transform in self.transforms}

    def savepoint(self, name: str, give_up: Callable[[], bool] = lambda: False) -> Savepoint:
        """Keep the checkpoint under a name, each job between two of its micro-batches. The others run meanwhile.

        Waits for running micro-batches, so none of them may call it. StateError if the name is taken, or `give_up` says
        so before a running micro-batch has ended.
        """
        gates = {job.checkpoint.job_address: job.gate for job in self.jobs}

        def standstill(job: str) -> contextlib.AbstractContextManager[object]:
            gate = gates.get(self.store.address(job))
            return contextlib.nullcontext() if gate is None else gate.closed(give_up)

        return take_savepoint(self.store, name, standstill)

    def repair(self, transform: str, options: RepairOptions, give_up: Callable[[], bool] = lambda: False) -> Repaired:
        """Fold side rows into the closed windows that they missed, between two micro-batches.

        Waits for a running micro-batch, so none may call it. StateError if `give_up` says so before it has ended.
        """
        assert self._config is not None, "the pipeline was started from its configuration"
        job = self._job_of(transform)
        with job.gate.closed(give_up):
            asked = current(self._config, self.store, transform)
            if options.dry_run:
                return Repair(asked, options).foreseen()
            return Repair(asked, options, self._given).carry_out(self._lock, self._own_session)

    def replay(self, transform: str, options: RepairOptions, give_up: Callable[[], bool] = lambda: False) -> Replayed:
        """Read side rows once more whose windows are open: the next micro-batch that is planned takes them.

        Waits as `repair` does.
        """
        assert self._config is not None, "the pipeline was started from its configuration"
        with self._job_of(transform).gate.closed(give_up):
            found = replay_rows(current(self._config, self.store, transform), options)
            for each in self.transforms:
                if each.plan.transform == transform and each.runner.replaying is not None:
                    each.runner.replaying.load()
        return found

    def finish_repairs(self, give_up: Callable[[], bool] = lambda: False) -> dict[str, list[int]]:
        """Deliver repairs that a process has begun and not finished. Gives their numbers, by transform."""
        finished = dict[str, list[int]]()
        for transform in self.transforms:
            begun = [] if transform.plan.keep_closed_us is None else begun_repairs(transform.checkpoint)
            if begun and self._config is not None:
                name = transform.plan.transform
                with transform.job.gate.closed(give_up):
                    asked = current(self._config, self.store, name)
                    deliver_begun(asked, begun, self._lock, self._own_session, self._given)
                finished[name] = [record.number for record in begun]
        return finished

    def _own_session(self) -> contextlib.AbstractContextManager[SparkSession]:
        """The pipeline's session, which goes on afterwards."""
        return contextlib.nullcontext(self.spark)

    def _job_of(self, transform: str) -> RunningJob:
        found = {each.plan.transform: each.job for each in self.transforms}
        if transform not in found:
            hint = f"it runs: {nearest(transform, list(found))}"
            raise StateError("NOT_RUNNING", f"the running pipeline has no transform `{transform}`", hint)
        return found[transform]

    def failure(self, failed: Exception) -> WindowpaneError:
        """The error for the user, of something that does not end the pipeline."""
        return spark_failure(failed, None, self._log)

    def drain(self) -> dict[str, Entry | None]:
        """Process the available input, emit every open window and finish the checkpoint."""
        try:
            self.drain_unless(threading.Event())
        except Exception as failed:
            raise self.fail(failed) from failed
        return self.status()

    def drain_unless(self, asked_to_stop: threading.Event) -> bool:
        """The same, but give up when the event is set. Returns whether the pipeline is drained.

        If not, also when it raises, the pipeline still has to be stopped. The next start goes on from there.
        """
        self.board.become("draining")
        if not all(drain(job, asked_to_stop) for job in self.jobs):
            return False
        self.board.become("finished")
        self._close()
        return True

    def stop(self) -> None:
        """Stop quickly: nothing is emitted, and open windows stay in the checkpoint."""
        self._stop_queries()
        self.board.become("stopped")
        self._close()

    def fail(self, failed: BaseException) -> Exception:
        """Stop the other transforms after a failure, and return the error for the user."""
        reason = spark_failure(failed, None, self._log)
        with contextlib.suppress(Exception):  # a failure here has the same cause, or matters less
            self._stop_queries()
        with contextlib.suppress(Exception):
            self.board.become("failed", reason.as_dict())
        self._close()
        return reason

    def _stop_queries(self) -> None:
        for job in self.jobs:
            job.stop()
        for transform in self.transforms:
            settle(transform, for_good=False)

    def _close(self) -> None:
        """Close all parts, even if one of them fails: Spark may be gone, and the lock must be released."""
        closing = [transform.runner.side.close for transform in self.transforms]
        closing += [transform.runner.output.close for transform in self.transforms]
        closing += [self.board.recent.close] if self.board.recent is not None else []
        closing += [self.metrics.close] if self.metrics is not None else []
        closing += [self.spark.stop] if self._owns_session else []
        for close in [*closing, self._lock.release]:
            with contextlib.suppress(Exception):
                close()
