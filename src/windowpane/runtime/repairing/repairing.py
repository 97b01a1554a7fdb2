"""Repairs a stopped pipeline: late, evicted and once unreadable rows are folded into the windows that they missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windowpane.checkpoint.evolution import adopted_by
from windowpane.checkpoint.repairs import RepairRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint, transform_checkpoint
from windowpane.errors import StateError
from windowpane.plan.pipeline import adopted_plan
from windowpane.runtime.asking.asked import Asked, now_us
from windowpane.runtime.repairing.candidates import find_candidates
from windowpane.runtime.repairing.folding import Folded, Folding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windowpane.runtime.pipeline import Pipeline


@dataclass(frozen=True)
class RepairOptions:
    """What the user asks for."""

    sink: str
    """The side output from which rows are taken."""
    where: str | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Repaired:
    """What a repair has done, or would do."""

    transform: str
    number: int | None
    """None if there was nothing to repair."""
    folded: Folded
    finished: tuple[int, ...] = ()
    """Repairs that were begun earlier, and are delivered now."""
    dry_run: bool = False

    @property
    def repaired(self) -> dict[str, int]:
        return dict(Counter(each.record.kind for each in self.folded.taken))

    def as_dict(self) -> dict[str, Any]:
        return {
            "transform": self.transform, "dry_run": self.dry_run, "repair": self.number, "repaired": self.repaired,
            "windows": self.folded.windows, "changes": self.folded.changes,
            "refused": [each.as_dict() for each in self.folded.refused],
            "finished": list(self.finished),
        }  # fmt: skip


@dataclass(frozen=True)
class Repair:
    """Repairs one transform. `tell`: notes for the user."""

    asked: Asked
    options: RepairOptions
    pipeline: Callable[[], Pipeline]
    """Loads Spark's modules."""
    tell: Callable[[str], None] = lambda _: None

    def carry_out(self, spark: SparkSession | None = None) -> Repaired:
        """StateError while a process runs on the checkpoint, or if results wait for a sink."""
        if self.options.dry_run:
            return Repaired(self.asked.name, None, self._folded(self.asked), dry_run=True)
        store = self.pipeline().store
        lock = RunLock(store)
        own = transform_checkpoint(lock.acquire(), self.asked.name)
        try:
            asked = replace(self.asked, checkpoint=own, running=False)
            _check_delivered(own, asked.name)
            return self._repaired(asked, lock, spark)
        finally:
            lock.release()

    def _repaired(self, asked: Asked, lock: RunLock, spark: SparkSession | None) -> Repaired:
        repairs = asked.checkpoint.repairs
        begun = [record for record in repairs.all() if record.state == "begun"]
        folded = self._folded(asked)
        number = None
        if folded.taken:
            number = max((record.number for record in repairs.all()), default=-1) + 1
            record = RepairRecord(
                number, "begun", now_us(), dict(Counter(each.record.kind for each in folded.taken)),
                [each.record.id for each in folded.taken], folded.emissions.num_rows, folded.windows,
            )  # fmt: skip
            repairs.begin(record, folded.states, folded.emissions)
            begun.append(record)
        if begun:
            self._deliver(asked, lock, begun, spark)
        return Repaired(asked.name, number, folded, tuple(each.number for each in begun if each.number != number))

    def _folded(self, asked: Asked) -> Folded:
        record = asked.checkpoint.record()
        if record.earlier:
            raise StateError(
                "HAND_OVER_RUNS",
                f"transform `{asked.name}` hands its windows over to another plan, which has not ended",
                "run the pipeline until it has: windowpane history shows the cut",
            )  # fmt: skip
        adopted = replace(asked, plan=adopted_plan(asked.config, asked.plan, adopted_by(record)))
        done = {each for repair in asked.checkpoint.repairs.all() for each in repair.records}
        folding = Folding(adopted)
        candidates = find_candidates(asked, self.options.sink, self.options.where, done)
        return folding.fold(candidates, asked.checkpoint.closed, asked.checkpoint.repairs)

    def _deliver(self, asked: Asked, lock: RunLock, begun: list[RepairRecord], spark: SparkSession | None) -> None:
        from windowpane.runtime.repairing.delivering import deliver  # noqa: PLC0415  # loads PySpark

        pipeline = self.pipeline()
        plan = adopted_plan(asked.config, asked.plan, adopted_by(asked.checkpoint.record()))
        self.tell("starting Spark …" if spark is None else "writing …")
        with _session(pipeline, spark) as session:
            for record in begun:
                deliver(session, pipeline, plan, record, checkpoint=asked.checkpoint, lock=lock)
                asked.checkpoint.repairs.finish(record)


def _check_delivered(checkpoint: Checkpoint, transform: str) -> None:
    waiting = [name for name, outbox in checkpoint.result_outboxes().items() if outbox.pending()]
    if waiting:
        raise StateError(
            "RESULTS_WAIT", f"results of transform `{transform}` wait for the sink {', '.join(waiting)}, and would "
            "come after their corrections", "run the pipeline until the sink has taken them, then stop and repair it",
        )  # fmt: skip


@contextmanager
def _session(pipeline: Pipeline, given: SparkSession | None) -> Iterator[SparkSession]:
    if given is not None:
        yield given
        return
    from windowpane.runtime.failures import spark_failure  # noqa: PLC0415  # loads PySpark

    session = pipeline.session(None)
    try:
        yield session
    except Exception as failed:
        raise spark_failure(failed, None, pipeline.log) from failed
    finally:
        session.stop()
