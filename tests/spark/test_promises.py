"""What a pipeline on Spark promises over restarts, shards and cuts of its input."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.jobs import (
    FIRST_FILE_TIME,
    Job,
    Query,
    assert_same,
    counted,
    finish,
    in_harness,
    run_together,
)
from tests.spark.test_queries import BATCHES, LAG, SCHEMA, made_rows
from windowpane.connectors.sinks import CallableSink
from windowpane.errors import StateError
from windowpane.runtime import Pipeline

pytestmark = pytest.mark.spark

TUMBLING = Query(
    "SELECT k, count(*) AS n, sum(v) AS s, avg(x) AS a, window_id, emit_epoch FROM s "
    "GROUP BY tumblingwindow('ss', 3), k",
    {"s": SCHEMA}, LAG,
)  # fmt: skip

SLIDING = replace(
    TUMBLING, sql="SELECT k, v, trigger_time FROM s GROUP BY slidingwindow('ss', 2) OVER (PARTITION BY k)"
)


def test_shards_do_not_change_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_rows(7, 120, keys=20, spread_ms=12_000)
    jobs = [Job(tmp_path / f"{shards}", TUMBLING, shards=shards) for shards in (1, 2, 7)]
    outcomes = run_together(spark, [job.feed_all([rows[:60], rows[60:]]) for job in jobs], drain=True)
    wanted = in_harness(TUMBLING, [rows[:60], rows[60:]], drain=True)
    assert wanted.all_rows
    assert wanted.all_side
    for outcome in outcomes:
        assert_same(outcome, wanted)


def test_cuts_do_not_change_the_rows_where_none_is_later_than_the_lag(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_rows(8, 60, spread_ms=2000)
    query = replace(TUMBLING, options={"eventtime.late_tolerance": "3s"})
    cuts = [[rows], [rows[:11], rows[11:50], rows[50:]], [rows[low : low + 12] for low in range(0, 60, 12)]]
    jobs = [Job(tmp_path / f"{number}", query).feed_all(cut) for number, cut in enumerate(cuts)]
    whole, *others = run_together(spark, jobs, drain=True)
    assert not whole.all_side
    assert counted(whole.all_rows) == counted(in_harness(query, [rows], drain=True).all_rows)
    for other in others:
        assert counted(other.all_rows) == counted(whole.all_rows)
        assert not other.all_side


def test_available_now_again_and_again_then_drained_then_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Between the runs `spark.sql.shuffle.partitions` changes: state keeps the shards it was made with."""
    job = Job(tmp_path, TUMBLING)
    for number, batch in enumerate(BATCHES):
        job.feed(batch)
        if number == 1:
            spark.conf.set("spark.sql.shuffle.partitions", "5")
        job.run(spark, drain=number == len(BATCHES) - 1)
    outcome = job.outcome()
    assert_same(outcome, in_harness(TUMBLING, BATCHES, drain=True))
    assert outcome.entries[-1].totals["in_"] == sum(map(len, BATCHES))
    with pytest.raises(StateError, match="ended gracefully") as refused:
        job.start(spark)
    assert refused.value.code == "CHECKPOINT_FINISHED"


def test_dedupe_and_quotas_with_several_shuffles_and_with_the_one_of_older_checkpoints(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Stopped, with its last micro-batch replayed, and drained: as in the harness."""
    dedupe = {"key": ["ts"], "within": "1m"}
    limited = replace(TUMBLING, transform={"dedupe": dedupe, "limits": {"max_groups": 2}})
    sliding = replace(SLIDING, transform={"dedupe": dedupe})
    batches = [[*batch, *batch[::7], *batch[::3]] for batch in BATCHES[:3]]
    jobs = [Job(tmp_path / f"{number}", query) for number, query in enumerate([limited, sliding, limited])]
    older = jobs[-1].pipeline()
    older.checkpoint(older.plans[0]).claim(older.plans[0], 2, spread=False)
    record = tmp_path / "2" / "state" / "q" / "plan.json"
    record.write_text(
        json.dumps({key: value for key, value in json.loads(record.read_text()).items() if key != "spread"})
    )
    for job in jobs:
        job.feed_all(batches[:2])
    run_together(spark, jobs, at_once=3)
    for job in jobs:
        forget_commit(job.folder / "state" / "q" / "spark", 1)
        job.feed_all(batches[2:])
    run_together(spark, jobs, drain=True, at_once=3)
    for job, shuffles in zip(jobs, (3, 2, 1), strict=True):
        outcome = job.outcome()
        assert_same(outcome, in_harness(job.query, batches, drain=True))
        assert [len(shards) for shards in outcome.entries[-1].shuffled] == [2] * shuffles
    assert jobs[0].outcome().entries[-1].totals["evicted"]
    assert jobs[0].outcome().entries[-1].totals["duplicate"]


def test_other_stages_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    """Before Spark starts. An option that changes nothing for a query is not compared."""
    limited = replace(TUMBLING, transform={"limits": {"max_groups": 2}})
    for number, query in enumerate((limited, TUMBLING)):
        first = Job(tmp_path / f"{number}", query).pipeline()
        record = first.checkpoint(first.plans[0]).claim(first.plans[0], 2)
        assert record.spread is (query is limited)
        asked = first.checkpoint(first.plans[0])
        assert asked.admit(first.plans[0], 2, spread=query is limited) == record
    other = Job(tmp_path / "0", replace(limited, options={**LAG, "extra_shuffles": False})).pipeline()
    with pytest.raises(StateError, match="made with several shuffles, the options ask for one") as refused:
        other.start()
    assert refused.value.code == "CHECKPOINT_SPREAD"
    assert "extra_shuffles = true" in str(refused.value.hint)


def test_other_shards_and_another_query_are_refused(tmp_path: Path) -> None:
    """Before Spark starts."""
    first = Job(tmp_path, TUMBLING).pipeline()
    first.checkpoint(first.plans[0]).claim(first.plans[0], 2)
    other_shards = Job(tmp_path, TUMBLING, shards=3)
    with pytest.raises(StateError, match="has 2 shards, the options ask for 3") as refused:
        other_shards.pipeline().start()
    assert refused.value.code == "CHECKPOINT_SHARDS"
    changed = Job(tmp_path, replace(TUMBLING, sql=TUMBLING.sql.replace("'ss', 3", "'ss', 4"))).pipeline()
    with pytest.raises(StateError) as refused:
        changed.start()
    assert refused.value.code == "CHECKPOINT_OTHER_QUERY"
    message = str(refused.value)
    assert first.plans[0].plan_id in message
    assert changed.plans[0].plan_id in message
    differing = [line.strip() for line in message.splitlines() if line.strip()[:1] in ("-", "+")]
    assert len(differing) == 2
    assert "'3s'" in differing[0]
    assert "'4s'" in differing[1]


def test_a_route_to_reinject_cannot_come_or_go(tmp_path: Path) -> None:
    """Before Spark starts, which would say that the number of sources has changed."""
    routes = {"error": {"sink": "reinject"}, "late": {"sink": "dlq"}}
    again = replace(TUMBLING, transform={"side_output": routes})
    first = Job(tmp_path, again).pipeline()
    first.checkpoint(first.plans[0]).claim(first.plans[0], 2)
    with pytest.raises(StateError, match="was made with a route to `reinject`") as refused:
        Job(tmp_path, TUMBLING).pipeline().start()
    assert refused.value.code == "CHECKPOINT_REINJECT"


def test_a_crash_between_sink_and_commit_leaves_one_copy(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's last commit is taken back: the batch is processed again, over what it has written."""
    job = Job(tmp_path, TUMBLING).feed_all(BATCHES)
    settings = job.settings()
    settings["sinks"] = {name: {"format": "json", "path": name} for name in ("results", "dlq")}
    pipeline = Pipeline.from_dict(settings, tmp_path)
    finish(pipeline.start(spark), drain=False)
    before = {path.name: path.read_text() for name in ("results", "dlq") for path in (tmp_path / name).glob("part-*")}
    ledger = pipeline.checkpoint(pipeline.plans[0]).ledger
    entry = ledger.last()
    assert entry is not None
    assert entry.results or entry.side
    forget_commit(tmp_path / "state" / "q" / "spark", len(BATCHES) - 1)
    finish(Pipeline.from_dict(settings, tmp_path).start(spark), drain=False)
    after = {path.name: path.read_text() for name in ("results", "dlq") for path in (tmp_path / name).glob("part-*")}
    assert {name: Counter(text.splitlines()) for name, text in after.items()} == {
        name: Counter(text.splitlines()) for name, text in before.items()
    }
    again = ledger.last()
    assert again is not None
    assert replace(again, seconds=0, spent={}, fence=0) == replace(entry, seconds=0, spent={}, fence=0)


def test_two_pipelines_in_one_process_keep_apart(spark: SparkSession, tmp_path: Path) -> None:
    left, right = Job(tmp_path / "left", TUMBLING), Job(tmp_path / "right", TUMBLING, shards=3)
    left.feed_all([BATCHES[0], BATCHES[1]])
    right.feed_all([BATCHES[2], BATCHES[3]])
    got = run_together(spark, [left, right], drain=True)
    assert_same(got[0], in_harness(TUMBLING, BATCHES[:2], drain=True))
    assert_same(got[1], in_harness(TUMBLING, BATCHES[2:], drain=True))


YEAR_MS = 365 * 24 * 3600 * 1000
EDGES: list[dict[str, Any]] = [
    {"ts": -1, "k": "é", "x": 0.0, "v": 1},
    {"ts": -3001, "k": None, "x": float("nan"), "v": 2},
    {"ts": -2999, "k": None, "x": float("nan"), "v": 4},
    {"ts": 0, "k": "é", "x": -0.0, "v": 8},
    {"ts": 1, "k": "e\u0301", "x": 0.0, "v": 16},
    {"ts": 2, "k": "日本 \U0001f600", "x": None, "v": 32},
    {"ts": 3, "k": "", "x": float("inf"), "v": 64},
    {"ts": YEAR_MS, "k": "é", "x": -0.0, "v": 128},
]


def test_odd_keys_times_before_1970_and_a_gap_of_a_year(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(
        "SELECT k, x, sum(v) AS s, window_start FROM s GROUP BY hoppingwindow('ss', 6, 3), k, x",
        {"s": SCHEMA}, {"eventtime.late_tolerance": "1h"},
    )  # fmt: skip
    job = Job(tmp_path, query).feed_all([EDGES, [{"ts": 2 * YEAR_MS, "k": "end", "x": 1.0, "v": 1}]])
    outcome = job.run(spark)
    wanted = in_harness(query, [EDGES, [{"ts": 2 * YEAR_MS, "k": "end", "x": 1.0, "v": 1}]])
    assert counted(map(_one_zero, outcome.all_rows)) == counted(map(_one_zero, wanted.all_rows))
    assert len(outcome.all_rows) == 14


def _one_zero(row: dict[str, Any]) -> dict[str, Any]:
    """Which of -0.0 and 0.0 stands for the group is open."""
    return row | {"x": 0.0 if row["x"] == 0 else row["x"]}


def test_an_empty_folder_and_a_single_row(spark: SparkSession, tmp_path: Path) -> None:
    empty, single = Job(tmp_path / "empty", TUMBLING), Job(tmp_path / "single", TUMBLING)
    single.feed([{"ts": 5, "k": "a", "v": 1}])
    nothing, one = run_together(spark, [empty, single], drain=True)
    assert (nothing.all_rows, nothing.all_side, nothing.entries) == ([], [], [])
    assert [(row["k"], row["n"]) for row in one.all_rows] == [("a", 1)]
    with pytest.raises(StateError) as refused:
        empty.start(spark)
    assert refused.value.code == "CHECKPOINT_FINISHED"


def test_a_million_groups_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    count, found = 1_000_000, list[Any]()
    job = Job(tmp_path, TUMBLING, source_format="parquet")
    rows = pa.table(
        {"ts": pa.repeat(5, count), "k": pa.array(range(count)).cast(pa.string()), "v": pa.repeat(2, count)}
    )
    pq.write_table(rows, tmp_path / "data" / "s" / "all.parquet")

    def take(frame: DataFrame, batch_id: int) -> None:
        found.append(frame.selectExpr("count(*)", "count(DISTINCT k)", "sum(n)", "sum(s)").first())

    pipeline = Pipeline.from_dict(
        job.settings(), tmp_path, sinks={"results": CallableSink("results", take), "dlq": job.dlq}
    )
    finish(pipeline.start(spark), drain=True)
    assert [tuple(row) for row in found] == [(count, count, count, 2 * count)]


def test_lines_that_cannot_be_read_are_error_rows(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(tmp_path, TUMBLING)
    job.feed(BATCHES[0])
    path = next((tmp_path / "data" / "s").glob("*.json"))
    cut_off = json.dumps(BATCHES[1][0])[:-7]
    path.write_text(path.read_text() + "no json at all\n" + cut_off)
    outcome = job.run(spark, drain=True)
    errors = [record for record in outcome.all_side if record["kind"] == "error"]
    assert [record["reason"] for record in errors] == ["decode_error", "decode_error"]
    assert {record["error_detail"] for record in errors} == {"no json at all", cut_off}
    assert counted(outcome.all_rows) == counted(in_harness(TUMBLING, BATCHES[:1], drain=True).all_rows)
    assert outcome.entries[-1].totals["in_"] == len(BATCHES[0]) + 2


def test_a_parquet_file_that_is_cut_off_is_an_error_row(spark: SparkSession, tmp_path: Path) -> None:
    """The good file in its own micro-batch counts, and a replay of that micro-batch gives the same."""
    job = Job(tmp_path, TUMBLING, source_format="parquet")
    settings = job.settings()
    settings["streams"]["s"]["options"] = {"maxFilesPerTrigger": 2}
    data = tmp_path / "data" / "s"
    for number, batch in enumerate(BATCHES):
        path = data / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(batch), path)
        if number == 3:
            path.write_bytes(path.read_bytes()[:-20])
        os.utime(path, (FIRST_FILE_TIME + number,) * 2)
    given = {"results": job.results, "dlq": job.dlq}
    finish(Pipeline.from_dict(settings, tmp_path, sinks=given).start(spark), drain=False)
    first = job.outcome()
    forget_commit(tmp_path / "state" / "q" / "spark", 1)
    finish(Pipeline.from_dict(settings, tmp_path, sinks=given).start(spark), drain=True)
    outcome = job.outcome()
    errors = [record for record in outcome.all_side if record["kind"] == "error"]
    assert [(record["kind"], record["reason"]) for record in errors] == [("error", "decode_error")]
    assert "3.parquet" in errors[0]["error_detail"]
    wanted = in_harness(TUMBLING, [BATCHES[0] + BATCHES[1], BATCHES[2]], drain=True)
    assert counted(outcome.all_rows) == counted(wanted.all_rows)
    assert outcome.entries[1].accounting["error"] == 1
    assert outcome.entries[-1].totals["in_"] == 3 * len(BATCHES[0]) + 1
    assert [replace(entry, seconds=0, spent={}, fence=0) for entry in first.entries] == [
        replace(entry, seconds=0, spent={}, fence=0) for entry in outcome.entries[:2]
    ]


def forget_commit(checkpoint: Path, *batches: int) -> None:
    """As if the process had died before Spark committed these batches."""
    for batch in batches:
        (checkpoint / "commits" / str(batch)).unlink()
        (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_transforms_that_share_a_sink_keep_each_other_s_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Results and side rows of two transforms in one folder, with equal batch ids."""
    job = Job(tmp_path, TUMBLING).feed_all(BATCHES[:2])
    settings = job.settings()
    settings["sinks"] = {"all": {"format": "json", "path": "all"}}
    routes = {kind: {"sink": "all"} for kind in ("late", "error")}
    settings["transforms"] = {
        name: {"sql": sql, "sink": "all", "side_output": routes}
        for name, sql in {"a": TUMBLING.sql, "b": TUMBLING.sql.replace("'ss', 3", "'ss', 2")}.items()
    }
    pipeline = Pipeline.from_dict(settings, tmp_path)
    finish(pipeline.start(spark), drain=True)
    lines = [line for path in (tmp_path / "all").glob("part-*") for line in path.read_text().splitlines()]
    ledgers = [pipeline.checkpoint(plan).ledger for plan in pipeline.plans]
    entries = [entry for ledger in ledgers for batch in ledger.batch_ids() if (entry := ledger.read(batch))]
    assert sum(entry.results for entry in entries) > 0
    assert sum(sum(entry.side.values()) for entry in entries) > 0
    assert len(lines) == sum(entry.results + sum(entry.side.values()) for entry in entries)


def test_a_graceful_end_that_was_cut_short_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    """It had written its rows and not finished: the next start goes on, and those windows come out when they close."""
    job = Job(tmp_path, TUMBLING)
    settings = job.settings()
    settings["sinks"] = {name: {"format": "json", "path": name} for name in ("results", "dlq")}
    first, second = [{"ts": 1000, "k": "a", "v": 1}], [{"ts": 1001, "k": "a", "v": 2}]
    job.feed(first)
    finish(Pipeline.from_dict(settings, tmp_path).start(spark), drain=True)
    assert written(tmp_path / "results") == [("a", 1)]
    (tmp_path / "state" / "q" / "finished.json").unlink()
    job.feed(second)
    finish(Pipeline.from_dict(settings, tmp_path).start(spark), drain=False)
    assert written(tmp_path / "results") == []
    finish(Pipeline.from_dict(settings, tmp_path).start(spark), drain=True)
    assert written(tmp_path / "results") == [("a", 2)]


def written(folder: Path) -> list[tuple[str, int]]:
    rows = [json.loads(line) for path in folder.glob("part-*") for line in path.read_text().splitlines()]
    return [(row["k"], row["n"]) for row in rows]
