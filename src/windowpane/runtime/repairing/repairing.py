"""Repairs a transform: late, evicted and once unreadable rows are folded into the windows that they missed.

Whoever holds the checkpoint's lease does it: the command if the pipeline is stopped (`stopped.py`), else the process
that runs it, between two micro-batches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from windowpane.checkpoint.evolution import adopted_by
from windowpane.checkpoint.repairs import RepairRecord
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.transform import Checkpoint
from windowpane.errors import StateError
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import adopted_plan
from windowpane.plan.repairable import unrepairable
from windowpane.runtime.asking.asked import Asked, now_us
from windowpane.runtime.repairing.candidates import find_candidates, taken_records
from windowpane.runtime.repairing.folding import Folded, Folding, nothing_folded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windowpane.connectors.sinks import Sink

Sessions: TypeAlias = "Callable[[], AbstractContextManager[SparkSession]]"
"""Gives a session of Spark, when results are to be written."""


@dataclass(frozen=True)
class RepairOptions:
    """What the user asks for."""

    sink: str
    """The side output from which rows are taken."""
    where: str | None = None
    dry_run: bool = False
    stream: str | None = None
    """The stream that the rows are of, if the transform reads several."""


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
        """Values of JSON only: another process may have asked."""
        found = {
            "transform": self.transform, "dry_run": self.dry_run, "repair": self.number, "repaired": self.repaired,
            "windows": self.folded.windows, "changes": self.folded.changes,
            "refused": [each.as_dict() for each in self.folded.refused],
            "finished": list(self.finished),
        }  # fmt: skip
        return dict(json.loads(json.dumps(found, default=str)))


@dataclass(frozen=True)
class Repair:
    """Repairs one transform. `given`: sinks from Python, by name."""

    asked: Asked
    """With the checkpoint of the holder of the lease, unless it is a dry run."""
    options: RepairOptions
    given: Mapping[str, Sink] = field(default_factory=dict)

    def foreseen(self) -> Repaired:
        """What a repair would do. Changes nothing."""
        return Repaired(self.asked.name, None, self._folded(), dry_run=True)

    def carry_out(self, lock: RunLock, sessions: Sessions) -> Repaired:
        """StateError if results wait for a sink. Only the holder of the lease may call it; no micro-batch may run."""
        check_delivered(self.asked)
        repairs = self.asked.checkpoint.repairs
        begun = begun_repairs(self.asked.checkpoint)
        folded = self._folded()
        number = None
        if folded.taken:
            number = max((record.number for record in repairs.all()), default=-1) + 1
            record = RepairRecord(
                number, "begun", now_us(), dict(Counter(each.record.kind for each in folded.taken)),
                [each.record.id for each in folded.taken], folded.emissions.num_rows, folded.windows,
            )  # fmt: skip
            repairs.begin(record, folded.states, folded.emissions)
            begun.append(record)
        deliver_begun(self.asked, begun, lock, sessions, self.given)
        finished = tuple(each.number for each in begun if each.number != number)
        return Repaired(self.asked.name, number, folded, finished)

    def _folded(self) -> Folded:
        asked, record = self.asked, self.asked.checkpoint.record()
        if record.earlier:
            raise StateError(
                "HAND_OVER_RUNS",
                f"transform `{asked.name}` hands its windows over to another plan, which has not ended",
                "run the pipeline until it has: windowpane history shows the cut",
            )  # fmt: skip
        done, why = taken_records(asked.checkpoint), unrepairable(asked.plan)
        candidates = find_candidates(asked, self.options.sink, self.options.where, done)
        if why is not None:
            whole = f"no window of this query can be repaired: {why}"
            return nothing_folded([replace(each, refused=each.refused or whole) for each in candidates])
        folding = Folding(replace(asked, plan=_adopted(asked)), self.options.stream)
        return folding.fold(candidates, asked.checkpoint.closed, asked.checkpoint.repairs)


def begun_repairs(checkpoint: Checkpoint) -> list[RepairRecord]:
    """Repairs that are valid and not known to be delivered, oldest first."""
    return [record for record in checkpoint.repairs.all() if record.state == "begun"]


def deliver_begun(
    asked: Asked, begun: Sequence[RepairRecord], lock: RunLock, sessions: Sessions, given: Mapping[str, Sink]
) -> None:
    """Write the results of repairs, in order. Spark starts if there are any."""
    if not begun:
        return
    from windowpane.runtime.repairing.delivering import deliver  # noqa: PLC0415  # loads PySpark

    checkpoint, plan = asked.checkpoint, _adopted(asked)
    with sessions() as session:
        for record in begun:
            deliver(session, asked.config, plan, record, given=given, checkpoint=checkpoint, lock=lock)
            checkpoint.repairs.finish(record)


def _adopted(asked: Asked) -> Plan:
    return adopted_plan(asked.config, asked.plan, adopted_by(asked.checkpoint.record()))


def check_delivered(asked: Asked) -> None:
    """StateError while results of the stream wait for a sink: they would come after their corrections."""
    waiting = [name for name, outbox in asked.checkpoint.result_outboxes().items() if outbox.pending()]
    if waiting:
        raise StateError(
            "RESULTS_WAIT", f"results of transform `{asked.name}` wait for the sink {', '.join(waiting)}, and would "
            "come after their corrections", "run the pipeline until the sink has taken them, then repair it",
        )  # fmt: skip
