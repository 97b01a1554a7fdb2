"""A case as a job on real Spark. Where a case moves the watermark by hand, a row does it that WHERE then leaves out.

The lag is so long that no row of the case itself moves time, and the helper row lies that much further ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cases import loader
from tests.cases.loader import Case, CaseQuery
from tests.spark.jobs import Job, Outcome, Query

LAG_MS = 1_000_000_000_000
HELPER = "mark"


@dataclass(frozen=True)
class CaseJob:
    """`batches`: the case's rows as files. A graceful end where the case asks for it."""

    case: Case
    query: Query
    batches: list[list[loader.Row]]

    @classmethod
    def of(cls, case: Case) -> CaseJob:
        by_hand = _moved_by_hand(case)
        given = _with_helper(case) if by_hand else case
        made = CaseQuery(given)
        arguments = made.harness_arguments()
        schemas = {name: stream["schema"] for name, stream in arguments["streams"].items()}
        query = Query(
            made.sql(), schemas, arguments["options"], arguments.get("transform", {}), timed=not made.by_clock
        )
        return cls(case, query, _batches(given))

    @property
    def drain(self) -> bool:
        return bool(self.case["time"]["end"] == "flush")

    def job(self, folder: Path) -> Job:
        return Job(folder, self.query).feed_all(self.batches)

    def differences(self, outcome: Outcome) -> list[str]:
        rows = [loader._as_case_row(row) for row in outcome.all_rows]
        late = [record["original_event"] for record in outcome.all_side if record["kind"] == "late"]
        return loader.differences(self.case, loader.Outcome(rows, late))


def runs_on_spark(case: Case) -> bool:
    """Not those that a clock drives, or several streams one after the other."""
    time = case["time"]
    clocked = time["mode"] == "processing" and case["window"]["kind"] not in ("count", "state")
    return not clocked and "streams" not in time


def _moved_by_hand(case: Case) -> bool:
    time = case["time"]
    if time["mode"] == "processing":
        return False
    return bool(time["watermarks"] == "explicit" or (time["watermarks"] == "none" and time["end"] == "stop"))


def _with_helper(case: Case) -> Case:
    """The same case, moved by rows."""
    items = list(case["input"])
    if case["time"]["watermarks"] == "none":
        items.append({"watermark": max(row["ts"] for row in items)})
    moved = [{"ts": item["watermark"] + LAG_MS, HELPER: True} if "watermark" in item else item for item in items]
    kept = f"{HELPER} IS NULL"
    where = f"({case['filter']}) AND {kept}" if case.get("filter") else kept
    time = case["time"] | {"watermarks": "explicit", "late_tolerance_ms": LAG_MS}
    return case | {"input": moved, "filter": where, "time": time}


def _batches(case: Case) -> list[list[loader.Row]]:
    """A helper row ends its batch: the rows before it are judged first. Per row: each row is a batch."""
    per_row = case["time"]["watermarks"] == "per_row"
    batches: list[list[loader.Row]] = [[]]
    for item in case["input"]:
        batches[-1].append(item)
        if per_row or HELPER in item:
            batches.append([])
    return [batch for batch in batches if batch]


def chosen(cases: list[Case], of_each: int) -> list[CaseJob]:
    """The shortest cases of every kind and way of moving time."""
    jobs = sorted((CaseJob.of(case) for case in cases if runs_on_spark(case)), key=lambda job: len(job.batches))
    picked: dict[tuple[str, str, str], list[CaseJob]] = {}
    for job in jobs:
        time = job.case["time"]
        key = (job.case["window"]["kind"], time["watermarks"], time["end"])
        same = picked.setdefault(key, [])
        if len(same) < of_each and len(job.batches) <= 8:
            same.append(job)
    return [job for same in picked.values() for job in same]
