"""Several transforms in one job, cut into stages: each gives what it gives alone. No Spark is started."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from tests.spark.staged import Layout, StagedJob, StagedRunner, staged
from windowpane.config import parse_pipeline
from windowpane.core.columns import TIME_SOURCE
from windowpane.core.runner import BatchResult
from windowpane.core.wire import StageMessage
from windowpane.plan.pipeline import plan_pipeline
from windowpane.remote.access import NO_ACCESS
from windowpane.scan.scan import Scan
from windowpane.scan.shared_scan import SharedScan
from windowpane.spark.batch_context import PROPERTY, BatchContext
from windowpane.spark.fold_stage import FoldStage
from windowpane.spark.job_inputs import Handed, JobMember, Sources, job_inputs, worker_scan
from windowpane.spark.job_stages import JobStages, pack_parts, tagged, unpack_parts, untagged
from windowpane.spark.splitting import split_stages
from windowpane.spark.stages import Stages
from windowpane.spark.timings import SPENT
from windowpane.sql import SessionFacts, parse_schema

pytestmark = pytest.mark.slow

STREAM: dict[str, Any] = {
    "schema": "ts BIGINT, k STRING, v BIGINT",
    "eventtime": {"column": "ts", "type": "unixtimestamp_ms"},
}
KEYS = ("a", "b", "c", "", None)
DEDUPE = {"dedupe": {"key": ["ts", "v"], "within": "4s"}}
COUNTS = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2), k"
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "short": ("SELECT k, sum(v) AS s FROM s GROUP BY tumblingwindow('ss', 5), k", {}),
    "long": ("SELECT k, count(*) AS n FROM s WHERE v > 20 GROUP BY hoppingwindow('ss', 20, 10), k", {}),
    "sessions": ("SELECT k, max(v) AS m FROM s GROUP BY sessionwindow('ss', 2), k", {"allowed_lateness": "3s"}),
    "once": ("SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 5), k", DEDUPE),
    "chain": (f"SELECT max(n) AS most FROM ({COUNTS}) GROUP BY tumblingwindow('ss', 8)", {}),
    "rows": ("SELECT k, v FROM s GROUP BY slidingwindow('ss', 3)", {}),
}


def batches() -> list[list[dict[str, Any]]]:
    rng = random.Random(5)
    found = [
        [
            {"ts": 1000 * (6 * part + rng.randrange(-4, 9)), "k": rng.choice(KEYS), "v": rng.randrange(90)}
            for _ in "a" * 40
        ]
        for part in range(5)
    ]
    found[2] = []
    found[3].append({"ts": None, "k": "é", "v": 1})
    return found


@cache
def alone(layout: Layout) -> dict[str, tuple[StagedRunner, list[BatchResult]]]:
    """Each transform by itself: what its micro-batches were given, and what they gave."""
    found = {}
    for name, (sql, transform) in QUERIES.items():
        options = {"eventtime.enabled": True, "max_future_skew": "off"}
        harness = staged(layout, sql, streams={"s": STREAM}, options=options, transform=transform, now=0)
        runner: Any = harness._runner
        given: list[BatchResult] = []
        run, end = runner.run_batch, runner.end
        runner.run_batch = lambda *args, run=run, given=given, **more: given.append(run(*args, **more)) or given[-1]
        runner.end = lambda *args, end=end, given=given: given.append(end(*args)) or given[-1]
        for number, rows in enumerate(batches()):
            harness.push(rows, at=number)
        harness.end()
        found[name] = (runner, given)
    return found


def shown(result: BatchResult) -> Any:
    rows = [row for part in result.emissions.values() for batch in part for row in batch.to_pylist()]
    side = [row for batch in result.side for row in batch.to_pylist()]
    accounts = {name: account.as_dict() for name, account in result.accounts.items()}
    return Counter(map(repr, rows)), Counter(map(repr, side)), result.watermark_us, accounts


@pytest.mark.parametrize("layout", [Layout(2), Layout(3, feedback=False)], ids=str)
def test_each_transform_gives_what_it_gives_alone(layout: Layout) -> None:
    by_itself = alone(layout)
    job = StagedJob(JobStages.of({name: runner.job.members[""] for name, (runner, _) in by_itself.items()}), layout)
    assert job.job.last_step == max(runner.job.last_step for runner, _ in by_itself.values())
    given, clock_us = list[dict[str, BatchResult]](), 0
    heard = zip(*(runner.heard for runner, _ in by_itself.values()), strict=True)
    for batch in heard:
        clock_us = batch[0][0]
        given.append(job.run_batch(clock_us, {name: rows for name, (_, rows, _) in zip(by_itself, batch, strict=True)}))
    given.append(job.end(clock_us))
    for name, (_, wanted) in by_itself.items():
        for number, (one, together) in enumerate(zip(wanted, given, strict=True)):
            assert shown(together[name]) == shown(one), f"{name}, batch {number}"


def test_a_transform_that_is_sent_nothing_keeps_its_state_and_reports_nothing() -> None:
    layout = Layout(2)
    by_itself = {name: each for name, each in alone(layout).items() if name in ("short", "sessions")}
    job = StagedJob(JobStages.of({name: runner.job.members[""] for name, (runner, _) in by_itself.items()}), layout)
    first = {name: runner.heard[0] for name, (runner, _) in by_itself.items()}
    clock_us = first["short"][0]
    job.run_batch(clock_us, {name: rows for name, (_, rows, _) in first.items()})
    kept = [{name: data for name, data in shard.items() if name.startswith("sessions:")} for shard in job.entries[0]]
    assert any(kept)
    result = job.run_batch(clock_us, {"short": first["short"][1]})
    assert not result["sessions"].emissions
    assert [
        {name: data for name, data in shard.items() if name.startswith("sessions:")} for shard in job.entries[0]
    ] == kept


def test_a_job_is_divided_anew() -> None:
    by_itself = alone(Layout(2))
    job = StagedJob(JobStages.of({name: runner.job.members[""] for name, (runner, _) in by_itself.items()}), Layout(2))
    given = []
    for number, batch in enumerate(zip(*(runner.heard for runner, _ in by_itself.values()), strict=True)):
        given.append(job.run_batch(batch[0][0], dict(zip(by_itself, (rows for _, rows, _ in batch), strict=True))))
        if number == 2:
            job.rescale(5)
    for name, (_, wanted) in by_itself.items():
        for one, together in zip(wanted, given, strict=False):
            assert shown(together[name])[0] == shown(one)[0], name


def test_parts_of_a_message_are_what_was_packed_and_can_be_used_in_place() -> None:
    both = b"x" * 65
    parts = {"a": both, "b": b"", "é": b"yz", "again": both}
    packed = pack_parts(parts)
    assert packed.count(both) == 1, "what two transforms have in common is sent once"
    assert {name: pa.py_buffer(data).to_pybytes() for name, data in unpack_parts(packed).items()} == parts
    start = pa.py_buffer(packed).address
    assert all((pa.py_buffer(data).address - start) % 64 == 0 for data in unpack_parts(packed).values() if len(data))
    assert untagged(tagged("side", "hot-1")) == ("side", "hot-1")
    assert untagged(tagged("side", "")) == ("side", "")


COUNTED = "SELECT k, count(*) AS n FROM s{} GROUP BY k, tumblingwindow('ss', {})"
ALIKE = {
    "a": COUNTED.format("", 1),
    "b": f"SELECT max(n) AS top FROM ({COUNTED.format('', 1)}) GROUP BY tumblingwindow('ss', 10)",
    "c": COUNTED.format("", 5),
    "d": COUNTED.format(" WHERE v > 1", 1),
}


@pytest.mark.parametrize("known", [{"a": 9_000_000, "b": 9_000_000}, {"a": 9_000_000, "b": 8_000_000}])
def test_transforms_that_fold_alike_fold_once(tmp_path: Path, context: TaskContext, known: dict[str, int]) -> None:
    """And get the messages that they get alone. Those that know another watermark judge other rows as late."""
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in batches()[1]), encoding="utf-8")
    listing = pa.RecordBatch.from_pydict(
        {"path": [str(tmp_path / "rows.json")], "modificationTime": pa.array([0], pa.timestamp("us", "UTC"))}
    )
    stages, scans = planned_stages(ALIKE)
    reader = next(iter(scans.values())).reader
    before: dict[str, list[int | None]] = {tag: [known.get(tag), 7] for tag in ALIKE}
    context._partitionId = 1
    context._localProperties = {
        "streaming.sql.batchId": "3", PROPERTY: BatchContext(3, 5, before).as_property()
    }  # fmt: skip

    def sent(tags: list[str]) -> list[dict[str, Any]]:
        job = JobStages.of({tag: stages[tag] for tag in tags})
        fold = FoldStage(job, (0, 1), SharedScan(reader, {tag: scans[tag] for tag in tags}))
        once = 3 if known["a"] == known["b"] else 4
        assert len(fold._folds(BatchContext(3, 5, before))) == (once if len(tags) > 1 else 1)
        (batch,) = fold.run(iter([listing]))
        return [unpack_parts(payload) for payload in batch.column("payload").to_pylist()]

    together = sent(list(ALIKE))
    for tag in ALIKE:
        for one, all_of_them in zip(sent([tag]), together, strict=True):
            assert said(one[tag]) == said(all_of_them[tag]), tag


@pytest.mark.parametrize("order", [["t", "s"], ["s", "t"], []])
def test_streams_are_read_in_the_order_in_which_spark_knows_them(order: list[str]) -> None:
    """Also if the transform that read them so has left the job."""
    both = "SELECT k, count(*) AS n FROM (SELECT ts, k, v FROM {} UNION ALL SELECT ts, k, v FROM {}) GROUP BY k, {}"
    stream = STREAM | {"format": "json", "path": "in"}
    config = parse_pipeline(
        {
            "streams": {"s": stream, "t": stream},
            "options": {"eventtime.enabled": True},
            "transforms": {"a": {"sql": both.format("s", "t", "tumblingwindow('ss', 2)"), "sink": "out"}},
            "sinks": {"out": {"format": "console"}},
        }
    )

    def handed(scan: Any) -> Any:
        return Handed(scan.stream)

    members = [JobMember(plan, Sources(handed, handed, handed)) for plan in plan_pipeline(config)]
    no_spark: Any = None
    found = job_inputs(no_spark, members, SessionFacts(), feedback=True, access=NO_ACCESS, order=order)
    assert [each.partitions_of for each in found] == (order or ["s", "t"])


def said(message: Any) -> Any:
    found = StageMessage.unpack(message)
    frames = [
        (given.source, getattr(given.frame, "batch", given.frame)) for each in found.portions for given in each.frames
    ]
    tallies = {name: count for name, count in found.tallies.items() if not name.startswith(SPENT)}
    return frames, found.clock_us, found.numbers, found.counts, tallies


def planned_stages(queries: dict[str, str]) -> tuple[dict[str, Stages], dict[str, Scan]]:
    config = parse_pipeline(
        {
            "streams": {"s": STREAM | {"format": "json", "path": "in"}},
            "options": {"eventtime.enabled": True, "max_future_skew": "off"},
            "transforms": {name: {"sql": sql, "sink": "out"} for name, sql in queries.items()},
            "sinks": {"out": {"format": "console"}},
        }
    )
    stages, scans = dict[str, Stages](), dict[str, Scan]()
    for plan in plan_pipeline(config):
        assert plan.scan is not None
        columns = parse_schema(STREAM["schema"])
        scans[plan.transform] = worker_scan(replace(plan.scan.streams[0], columns=columns))
        sent = pa.schema([field for field in scans[plan.transform].schema if field.name != TIME_SOURCE])
        stages[plan.transform] = split_stages(plan, sent, shards=2, feedback=True)[0]
    return stages, scans
