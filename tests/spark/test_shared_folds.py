"""Folds that transforms of a job share: each transform gives what it gives alone. No Spark is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from tests.spark.staged import Layout, StagedJob
from windowpane.config import parse_pipeline
from windowpane.core import columns as c
from windowpane.core.runner import BatchResult
from windowpane.core.time_range import TimeRange
from windowpane.core.windows.cut import Cut
from windowpane.plan.build import Plan
from windowpane.plan.pipeline import plan_pipeline
from windowpane.plan.shared_folds import share_folds
from windowpane.plan.stages import StageGraph, WindowStage
from windowpane.scan.scan import Part, Scan
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.fold_sharing import shared_scan
from windowpane.spark.fold_stage import FoldStage
from windowpane.spark.job_stages import JobStages, unpack_parts
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages

pytestmark = pytest.mark.slow

SHARDS = 2
ROWS = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
STREAM = {
    "format": "parquet", "path": "in", "schema": "ts BIGINT, k STRING, v BIGINT, w DOUBLE",
    "eventtime": {"column": "ts", "type": "unixtimestamp_ms"},
}  # fmt: skip
LATE = {"side_output.late": {"sink": "out", "include_original": True}}
TRANSFORMS: dict[str, dict[str, Any]] = {
    "seconds": {"sql": "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k, tumblingwindow('ss', 1)"},
    "six": {"sql": "SELECT k, max(v) AS m, avg(w) AS a FROM s GROUP BY k, tumblingwindow('ss', 6)"},
    "hops": {
        "sql": "SELECT k, count(*) FILTER (WHERE v > 3) AS n, min(v) AS m FROM s GROUP BY k, hoppingwindow('ss', 9, 6)"
    },
    "grown": {"sql": "SELECT k, count(v) AS n FROM s GROUP BY k WINDOW CUMULATE (STEP 2 SECONDS, SIZE 8 SECONDS)"},
    "shifted": {"sql": "SELECT k, sum(w) AS t FROM s GROUP BY k WINDOW TUMBLING (SIZE 4 SECONDS, OFFSET 1 SECOND)"},
    "patient": {"sql": "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 2)", "allowed_lateness": "5s"},
    "behind": {"sql": "SELECT k, sum(v) AS s FROM s GROUP BY k, tumblingwindow('ss', 3)", "watermark_lag": "4s"},
    "updates": {"sql": "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 5) EMIT ON UPDATE"},
    "ends": {"sql": "SELECT k, first(v) AS a, last(w) AS z FROM s GROUP BY k, tumblingwindow('ss', 4)"},
    "sets": {"sql": "SELECT k, count(DISTINCT v) AS d, mode(v) AS m FROM s GROUP BY k, tumblingwindow('ss', 12)"},
    "chain": {
        "sql": "SELECT max(n) AS top FROM (SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 2)) "
        "GROUP BY tumblingwindow('ss', 8)"
    },
    "some": {"sql": "SELECT k, count(*) AS n FROM s WHERE v > 2 GROUP BY k, tumblingwindow('ss', 2)"},
    "some_long": {"sql": "SELECT k, sum(v) AS n FROM s WHERE v > 2 GROUP BY k, hoppingwindow('ss', 8, 4)"},
    "all": {"sql": "SELECT count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2)"},
    "all_long": {"sql": "SELECT count(*) AS n, sum(v + 1) AS s FROM s GROUP BY tumblingwindow('ss', 6)"},
    "kept": {"sql": "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 2)", **LATE},
    "kept_long": {"sql": "SELECT k, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 6)", **LATE},
    "failing": {"sql": "SELECT k, sum(10 / v) AS s FROM s GROUP BY k, tumblingwindow('ss', 2)"},
    "failing_too": {"sql": "SELECT k, max(10 / v) AS s, count(*) AS n FROM s GROUP BY k, tumblingwindow('ss', 5)"},
}  # fmt: skip


@dataclass(frozen=True)
class Handed:
    """Reads rows that are handed to it, as a file reader does. Each batch is a file."""

    schema: pa.Schema = ROWS
    place: tuple[str, ...] = ()

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        return (Part(batch.select(self.schema.names)) for batch in handed)


@cache
def plans() -> dict[str, Plan]:
    config = parse_pipeline(
        {
            "streams": {"s": STREAM},
            "options": {"eventtime.enabled": True, "max_future_skew": "off"},
            "transforms": {name: {"sink": "out", **each} for name, each in TRANSFORMS.items()},
            "sinks": {"out": {"format": "console"}},
        }
    )
    return {plan.transform: plan for plan in plan_pipeline(config)}


@cache
def member(name: str) -> tuple[Plan, Stages, Scan]:
    return (plans()[name], *staged(plans()[name]))


def staged(plan: Plan) -> tuple[Stages, Scan]:
    assert plan.scan is not None
    read = plan.scan.streams[0]
    columns = {column.name for column in read.columns}
    scan = Scan(Handed(pa.schema([field for field in ROWS if field.name in columns])), read.projections, read.original)
    sent = pa.schema([field for field in scan.schema if field.name != c.TIME_SOURCE])
    return split_stages(plan, sent, shards=SHARDS, feedback=True)[0], scan


class Job(StagedJob):
    """Transforms whose rows the fold stage folds, in one job. `shares`: transforms may share folds."""

    def __init__(self, members: dict[str, tuple[Plan, Stages, Scan]], *, shares: bool) -> None:
        super().__init__(JobStages.of({tag: stages for tag, (_, stages, _) in members.items()}), Layout(SHARDS))
        self._stages = {tag: stages for tag, (_, stages, _) in members.items()}
        scan = SharedScan(Handed(), {tag: each for tag, (_, _, each) in members.items()})
        folds = share_folds({tag: plan for tag, (plan, _, _) in members.items()}).folds if shares else ()
        self.fold = FoldStage(self.job, (0, 1), *shared_scan(scan, folds, self._stages))
        self._batch = 0

    def run(self, context: TaskContext, clock_us: int, tasks: list[list[pa.RecordBatch]]) -> dict[str, BatchResult]:
        """A micro-batch. `tasks`: what each task reads."""
        before = {tag: [self.watermarks[tag], self._arrivals[tag]] for tag in self._stages}
        known = BatchContext(self._batch, clock_us, before).as_property()
        context._localProperties = {"streaming.sql.batchId": str(self._batch), PROPERTY: known}
        sent = []
        for task, batches in enumerate(tasks):
            context._partitionId = task
            sent += [batch.column("payload").to_pylist() for batch in self.fold.run(iter(batches))]
        self._batch += 1
        for tag in self._arrivals:
            self._arrivals[tag] += sum(batch.num_rows for batches in tasks for batch in batches)
        return self._results(self._steps(sent, lambda shard, payloads: shard.take(payloads)))


def shown(result: BatchResult) -> Any:
    rows = [row for part in result.emissions.values() for batch in part for row in batch.to_pylist()]
    side = [row for batch in result.side for row in batch.to_pylist()]
    accounts = {name: account.as_dict() for name, account in result.accounts.items()}
    return Counter(map(repr, rows)), Counter(map(repr, side)), result.watermark_us, accounts


def assert_alike(
    members: dict[str, tuple[Plan, Stages, Scan]], batches: list[list[list[pa.RecordBatch]]], context: TaskContext
) -> Job:
    together = Job(members, shares=True)
    alone = {tag: Job({tag: each}, shares=True) for tag, each in members.items()}
    for number, tasks in enumerate(batches):
        given_together = together.run(context, 1000 + number, tasks)
        for tag, job in alone.items():
            assert shown(given_together[tag]) == shown(job.run(context, 1000 + number, tasks)[tag]), (tag, number)
    ended = together.end(5000)
    for tag, job in alone.items():
        assert shown(ended[tag]) == shown(job.end(5000)[tag]), tag
    return together


values = st.tuples(
    st.one_of(st.none(), st.integers(-3000, 40_000)), st.sampled_from(["a", "b", None]),
    st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.sampled_from([0.5, -2.25, 8.0])),
)  # fmt: skip
reads = st.lists(st.lists(st.lists(values, max_size=12), min_size=1, max_size=2), min_size=1, max_size=2)
"""What the tasks of a micro-batch read: rows in batches."""


def as_batches(tasks: list[list[list[tuple[Any, ...]]]]) -> list[list[pa.RecordBatch]]:
    return [
        [
            pa.RecordBatch.from_arrays(
                [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(ROWS)], schema=ROWS
            )
            for rows in batches
        ]
        for batches in tasks
    ]


@settings(max_examples=25)
@given(
    chosen=st.sets(st.sampled_from(sorted(TRANSFORMS)), min_size=2, max_size=6),
    batches=st.lists(reads, min_size=1, max_size=4),
)
def test_transforms_give_what_they_give_alone(chosen: set[str], batches: list[Any]) -> None:
    members = {name: member(name) for name in sorted(chosen)}
    before = TaskContext._taskContext
    try:
        TaskContext._taskContext = None
        assert_alike(members, [as_batches(tasks) for tasks in batches], TaskContext._getOrCreate())
    finally:
        TaskContext._taskContext = before


def rows(*times_ms: int | None) -> list[list[pa.RecordBatch]]:
    return as_batches([[[(ms, "ab"[number % 2], number, 0.5) for number, ms in enumerate(times_ms)]]])


def test_a_version_that_ends_at_a_cut_shares_panes(context: TaskContext) -> None:
    """Rows beyond the cut are in no window of it, and late rows of both versions are judged by each."""
    plan = plans()["seconds"]
    longer = plans()["six"]
    cut = {"old": (plan, Cut(until_us=12_000_000)), "new": (longer, Cut(from_us=12_000_000)), "other": (plan, None)}
    members = {}
    for tag, (each, part) in cut.items():
        changed = tuple(
            replace(stage, window=replace(stage.window, cut=part))
            if isinstance(stage, WindowStage) and stage.window
            else stage
            for stage in each.stages.stages
        )
        own = replace(each, stages=StageGraph(changed))
        members[tag] = (own, *staged(own))
    batches = [rows(1000, 5000, 13_000, 14_000), rows(12_000, 11_000, 4000, 40_000), rows(13_000, 41_000, 2000)]
    together = assert_alike(members, batches, context)
    assert [set(panes.keys) for panes in together.fold.shared] == [set(cut)]


def test_equal_messages_are_sent_once(context: TaskContext) -> None:
    names = ["chain", "seconds", "six"]
    members = {name: member(name) for name in names}
    members["again"] = members["six"]
    job = Job(members, shares=True)
    context._partitionId = 0
    before: dict[str, list[int | None]] = {tag: [None, 0] for tag in members}
    context._localProperties = {"streaming.sql.batchId": "0", PROPERTY: BatchContext(0, 5, before).as_property()}
    (batch,) = job.fold.run(iter(rows(1000, 2000, 9000)[0]))
    for payload in batch.column("payload").to_pylist():
        at = {tag: pa.py_buffer(part).address for tag, part in unpack_parts(payload).items()}
        assert at["six"] == at["again"] != at["seconds"]


def test_transforms_that_read_other_ranges_of_time_do_not_share() -> None:
    members = {name: member(name) for name in ("seconds", "six")}
    ranged = {
        tag: (plan, replace(stages, rows_in=TimeRange(0, end)), scan)
        for end, (tag, (plan, stages, scan)) in enumerate(members.items(), start=1)
    }
    assert Job(members, shares=True).fold.shared
    assert not Job(ranged, shares=True).fold.shared
