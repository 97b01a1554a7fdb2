"""A transform's folder in the checkpoint: whose state it is, whether it is finished, and who runs on it right now."""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from windowpane.checkpoint.agreement import check_agreement, last_id, run_id
from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.offset_log import planned_ms
from windowpane.checkpoint.outbox_check import check_outbox
from windowpane.checkpoint.reinjection_check import check_waiting
from windowpane.durable import read_object, remove_drafts, write_whole, writing
from windowpane.errors import StateError
from windowpane.plan.build import Plan

FORMAT = 1
PLAN_FILE = "plan.json"
UNNAMED = "unnamed_until"


@dataclass
class Checkpoint:
    """`<folder>/spark` is Spark's own checkpoint; the rest is ours."""

    folder: Path

    @property
    def spark(self) -> str:
        return str(self.folder / "spark")

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger")

    @property
    def outbox(self) -> Path:
        """Side rows that wait for their sinks, a folder for each."""
        return self.folder / "outbox"

    @property
    def reinject(self) -> Path:
        """Side rows that wait to be read again, a folder for each stream."""
        return self.folder / "reinject"

    def claim(self, plan: Plan, shards: int | None) -> int:
        """Make sure that this plan may run here, and give the number of shards its state has.

        A new folder takes on the plan; StateError when it is another query's, has other shards, is finished or damaged.
        """
        stored = self.admit(plan, shards)
        for folder in (self.folder, *self.folder.glob("outbox/*"), *self.folder.glob("reinject/*")):
            remove_drafts(folder)
        if stored is None:
            return self._take_on(plan, shards or os.cpu_count() or 1)
        known = self.described()
        if UNNAMED not in known:
            self._write_plan(known | {UNNAMED: self.last_committed() + 1})
        return stored

    def admit(self, plan: Plan, shards: int | None) -> int | None:
        """The same without writing: the number of shards, None for a new folder. Needs no Spark."""
        if self.finished() is not None:
            raise StateError(
                "CHECKPOINT_FINISHED",
                f"transform `{plan.transform}` has ended gracefully: its checkpoint {self.folder} is finished",
                "every window has been emitted. To process the input anew: windowpane reset",
            )
        check_agreement(Path(self.spark), self.ledger, self.folder / PLAN_FILE)
        check_waiting(Path(self.spark), self.ledger, self.reinject, self.last_committed())
        check_outbox(self.ledger, self.outbox, self.last_committed())
        known = self._plan()
        if known is None:
            return None
        self._check_same(known, plan)
        self._check_reinjection(known, plan)
        stored = int(known["shards"])
        if shards is not None and shards != stored:
            raise StateError(
                "CHECKPOINT_SHARDS",
                f"the state in {self.folder} has {stored} shards, the options ask for {shards}",
                f"set options `shards = {stored}`, or begin anew: windowpane reset",
            )
        return stored

    def _take_on(self, plan: Plan, shards: int) -> int:
        said = {"format": FORMAT, "plan_id": plan.plan_id, "sql": plan.query.canonical, "shards": shards}
        more = {"ticks": bool(plan.ticks_for), "reinject": plan.reinjects, UNNAMED: -1}
        self._write_plan(said | more)
        return shards

    def _write_plan(self, said: dict[str, Any]) -> None:
        write_whole(self.folder / PLAN_FILE, json.dumps(said, indent=1))

    def unnamed_until(self) -> int:
        """The last batch that an earlier version may have written to files whose names do not say its run."""
        return int((self._plan() or {}).get(UNNAMED, -1))

    def described(self) -> dict[str, Any]:
        """Plan, SQL and shards; StateError when there is no checkpoint here."""
        known = self._plan()
        if known is None:
            raise StateError("NO_CHECKPOINT", f"there is no checkpoint in {self.folder}")
        return known

    def claimed(self, plan: Plan) -> int:
        """The number of shards, for someone who only reads; StateError when the state is another query's."""
        known = self.described()
        self._check_same(known, plan)
        return int(known["shards"])

    def ticks(self) -> bool:
        """Whether queries of this checkpoint have a source that ticks: Spark goes on only with the sources it knows."""
        return bool((self._plan() or {}).get("ticks"))

    def _check_same(self, known: dict[str, Any], plan: Plan) -> None:
        if known.get("plan_id") == plan.plan_id:
            return
        before, after = str(known.get("sql")), plan.query.canonical
        changes = [line for line in difflib.ndiff(_clauses(before), _clauses(after)) if line[0] in "+-"]
        raise StateError(
            "CHECKPOINT_OTHER_QUERY",
            f"the checkpoint {self.folder} belongs to plan {known.get('plan_id')}, this query is plan {plan.plan_id}:\n"
            + "\n".join(f"  {line}" for line in changes),
            "run the query it was made with, set another `checkpoint` folder, or begin anew: windowpane reset",
        )

    def _check_reinjection(self, known: dict[str, Any], plan: Plan) -> None:
        """Rows that are read again are a source of the query, and Spark does not let a checkpoint's sources change."""
        before = bool(known.get("reinject", False))
        if before != plan.reinjects:
            was, now = ("with", "without") if before else ("without", "with")
            raise StateError(
                "CHECKPOINT_REINJECT",
                f"the checkpoint {self.folder} was made {was} a route to `reinject`, and this pipeline is {now} one",
                "keep the route as it was, set another `checkpoint` folder, or begin anew: windowpane reset",
            )

    def finish(self, entry_id: int) -> None:
        """After a graceful end nothing starts here again."""
        write_whole(self.folder / "finished.json", json.dumps({"format": FORMAT, "batch_id": entry_id}))

    def finished(self) -> dict[str, Any] | None:
        return read_object(self.folder / "finished.json", {"batch_id": int})

    def _plan(self) -> dict[str, Any] | None:
        return read_object(self.folder / PLAN_FILE, {"format": int, "plan_id": str, "sql": str, "shards": int})

    def note_damaged(self, batch_id: int, files: dict[str, str]) -> None:
        """From now on this batch is read without what these files do not give, and has an error row for each."""
        write_whole(self._damage(batch_id), json.dumps({"format": FORMAT, "files": files}, indent=1))

    def damaged(self, batch_id: int) -> dict[str, str]:
        """Files of a batch that cannot be read to their end, with the reason."""
        found = read_object(self._damage(batch_id), {"files": dict}, "remove it: the batch is examined again")
        return {str(path): str(reason) for path, reason in found["files"].items()} if found else {}

    def _damage(self, batch_id: int) -> Path:
        return self.folder / "damaged" / f"{batch_id:012}.json"

    def last_committed(self) -> int:
        """The last batch that Spark committed, -1 when there is none."""
        return last_id(self.folder / "spark" / "commits")

    def run_id(self) -> str:
        """What Spark calls the query that has this checkpoint; the same after every restart."""
        return run_id(Path(self.spark))

    def timestamp_us(self, batch_id: int) -> int:
        """When Spark began the batch, as its offset log has it: written before the batch runs, kept for a replay."""
        return planned_ms(Path(self.spark), batch_id) * 1000


def open_plans(folder: Path, plans: Sequence[Plan]) -> Sequence[Plan]:
    """Transforms to start: a graceful end that was cut short may have finished some of them, and not all."""
    return [plan for plan in plans if Checkpoint(folder / plan.transform).finished() is None] or plans


class RunLock:
    """At most one process runs on a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "run.lock"
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+", encoding="utf-8")
            os.fchmod(self._file.fileno(), self._path.parent.stat().st_mode & 0o666)
        if not self._locked(self._file, fcntl.LOCK_EX, tries=5):
            self._file.close()
            raise StateError(
                "CHECKPOINT_IN_USE",
                f"another process runs on the checkpoint {self._path.parent}",
                "stop it first: windowpane stop",
            )

    def held(self) -> bool:
        """Whether a process runs here right now."""
        if not self._path.is_file():
            return False
        with self._path.open(encoding="utf-8") as probe:
            return not self._locked(probe, fcntl.LOCK_SH, tries=1)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @staticmethod
    def _locked(file: IO[str], kind: int, tries: int) -> bool:
        """Several tries pass over the moment in which another process only asks whether the lock is held."""
        for left in reversed(range(tries)):
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.05 if left else 0)
            else:
                return True
        return False


def _clauses(sql: str) -> list[str]:
    """A canonical query with a line per clause, for a readable difference."""
    for word in (
        " FROM ",
        " WHERE ",
        " GROUP BY ",
        " HAVING ",
        " WINDOW ",
        " WATERMARK ",
        " EMIT ",
        " ORDER BY ",
        " LIMIT ",
    ):
        sql = sql.replace(word, f"\n{word.strip()} ")
    return sql.splitlines()
