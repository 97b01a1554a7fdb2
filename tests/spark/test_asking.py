"""tune, audit and repair on what real Spark has left: predictions come true, proofs hold, repairs come out once."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from windowpane.checkpoint.control import Requests, SideRowsRequest
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.transform import transform_checkpoint
from windowpane.cli.app import app
from windowpane.config import Trigger, load_pipeline
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime import Pipeline
from windowpane.runtime.asking.asked import asked_transforms
from windowpane.runtime.auditing.recomputing import recompute_check
from windowpane.runtime.repairing.asking import Asking
from windowpane.runtime.repairing.repairing import RepairOptions
from windowpane.runtime.running import RunningPipeline
from windowpane.runtime.supervision import supervise

pytestmark = pytest.mark.spark

PIPELINE = """
[streams.bids]
format = "json"
path = "in"
schema = "auction BIGINT, price BIGINT, ts BIGINT"
eventtime = {{ column = "ts", type = "unixtimestamp_s" }}
options = {{ maxFilesPerTrigger = 1 }}
[options]
eventtime.enabled = true
max_future_skew = "off"
trigger = "available_now"
shards = 2
[transforms.hot]
sql = '''
SELECT window_start, auction, emit_epoch, count(*) AS n, sum(price) AS total, avg(price) AS mean FROM bids
WHERE price > 1 GROUP BY tumblingwindow('ss', 5), auction
'''
sink = "out"
watermark_lag = "{lag}"
keep_closed = "1d"
[transforms.hot.side_output.late]
sink = "dlq"
include_original = true
[transforms.hot.side_output.error]
sink = "dlq"
include_original = true
[spark]
master = "local[1]"
[sinks.out]
format = "json"
path = "out"
[sinks.dlq]
format = "json"
path = "dlq"
"""
BATCHES = 5
KILLED = """
import os, signal
from windowpane.checkpoint.repairs import Repairs
from windowpane.cli import main
Repairs.finish = lambda self, record: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


def prepare(folder: Path, lag: str) -> Path:
    """The input, one file per micro-batch, and the pipeline's file."""
    random, inside = np.random.default_rng(11), folder / "in"
    inside.mkdir(parents=True)
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(lag=lag), encoding="utf-8")
    arrival = np.sort(random.uniform(0, 100, 1000))
    ts = 1_700_000_000 + arrival - random.exponential(6, 1000)
    rows = zip(random.integers(0, 4, 1000), random.integers(1, 9, 1000), ts, strict=True)
    lines = [json.dumps({"auction": int(k), "price": int(p), "ts": int(t)}) for k, p, t in rows]
    for batch in range(BATCHES):
        part = inside / f"{batch}.json"
        part.write_text("\n".join(lines[batch * 200 : batch * 200 + 200]) + "\n")
        os.utime(part, (1_700_000_000 + batch,) * 2)
    return file


KILLED_BEHIND_LEDGER = """
import os, signal
from windowpane.checkpoint.ledger import Ledger
from windowpane.cli import main
write = Ledger.write_all
def written(self, entries, versions=None):
    write(self, entries, versions)
    if any(entry.replays for entry in entries.values()):
        os.kill(os.getpid(), signal.SIGKILL)
Ledger.write_all = written
main()
"""


def run(spark: SparkSession, folder: Path, lag: str) -> Path:
    """Process all files, then stop: windows that are open stay open."""
    file = prepare(folder, lag)
    config = load_pipeline(file)
    running = Pipeline(config, plan_pipeline(config)).start(spark)
    running.wait()
    running.stop()
    return file


def asked(command: str, file: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(app, [command, str(file), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def results(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "out").glob("part-*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def latest(rows: Sequence[dict[str, Any]]) -> dict[Any, Any]:
    """The last emission of each window and group."""
    ordered = sorted(rows, key=lambda row: row["emit_epoch"])
    return {(row["window_start"], row["auction"]): (row["n"], row["total"], row["mean"]) for row in ordered}


def computed(folder: Path) -> dict[Any, Any]:
    """What a batch over all rows gives."""
    prices: dict[Any, list[int]] = {}
    for file in sorted((folder / "in").iterdir()):
        for row in map(json.loads, (line for line in file.read_text().splitlines() if line.endswith("}"))):
            start = dt.datetime.fromtimestamp(row["ts"] // 5 * 5, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            if row["price"] > 1:
                prices.setdefault((start, row["auction"]), []).append(row["price"])
    return {place: (len(each), sum(each), sum(each) / len(each)) for place, each in prices.items()}


def test_what_tune_predicts_and_what_repair_corrects(spark: SparkSession, tmp_path: Path) -> None:
    file, patient = run(spark, tmp_path / "a", "1s"), run(spark, tmp_path / "b", "10s")
    (found,), (truth,) = asked("tune", file), asked("tune", patient)
    predicted = {each["lag_us"]: each["late_rows"] for each in found["lags"]}
    for tuning, folder in ((found, file), (truth, patient)):
        own = next(each for each in tuning["lags"] if each["is_present"])
        (transform,) = asked_transforms(folder, None)
        assert transform.last is not None
        assert own["late_rows"] == transform.last.totals["late"] == predicted[own["lag_us"]] > 0
    assert asked("audit", file)["passed"]

    (transform,) = asked_transforms(file, None)
    recomputed = recompute_check(transform, 2, lambda _: None, spark=spark)
    assert recomputed.status == "ok", recomputed
    assert recomputed.detail.startswith("2 windows from 2023-11-14 22:1")
    late = transform.last.totals["late"] if transform.last else 0
    pipeline = Pipeline(transform.config, (transform.plan,))

    done = subprocess.run([sys.executable, "-c", KILLED, "repair", str(file), "--from", "dlq"], check=False)
    assert done.returncode == -signal.SIGKILL, "the sink has the results, and the record does not say so"
    assert [record.state for record in transform.checkpoint.repairs.all()] == ["begun"]
    again = Asking(transform, RepairOptions("dlq"), pipeline.store, lambda: pipeline).repaired_here(spark)
    assert (again.finished, again.number, again.folded.taken) == ((0,), None, [])
    (record,) = transform.checkpoint.repairs.all()
    assert (record.state, record.repaired) == ("done", {"late": late})

    rows, before = results(tmp_path / "a"), {row["window_start"] for row in results(tmp_path / "a")}
    assert len({(row["window_start"], row["auction"], row["emit_epoch"]) for row in rows}) == len(rows)
    wanted = {place: value for place, value in computed(tmp_path / "a").items() if place[0] in before}
    assert latest(rows) == wanted
    assert len(wanted) > 20
    assert asked("audit", file)["passed"]
    (described,) = asked("inspect", file, "--no-state").values()
    assert (described["totals"]["late"], described["totals"]["repaired"]) == (0, late)


@contextmanager
def supervised(spark: SparkSession, file: Path) -> Iterator[RunningPipeline]:
    """The pipeline runs in this process, and answers requests of others."""
    config = load_pipeline(file)
    running = Pipeline(config, plan_pipeline(config), trigger=Trigger("interval", 200_000)).start(spark)
    stopping = threading.Event()
    thread = threading.Thread(
        target=supervise, args=(running, Requests(running.store)),
        kwargs={"asked_to_stop": stopping, "drain": False, "tick": lambda: None},
    )  # fmt: skip
    thread.start()
    try:
        yield running
    finally:
        stopping.set()
        thread.join()


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def late_rows(file: Path) -> int:
    """Late rows that the side sink has."""
    return sum(len(part.read_text().splitlines()) for part in (file.parent / "dlq").glob("part-*.json"))


def test_a_running_pipeline_repairs_between_its_batches_and_finishes_what_a_kill_cut_short(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = prepare(tmp_path, "1s")
    store = FolderStore(tmp_path / "state")
    ledger = transform_checkpoint(store, "hot").ledger
    process = subprocess.Popen([sys.executable, "-c", KILLED, "run", str(file), "--trigger", "200ms"])
    try:
        wait_for(lambda: len(ledger.batch_ids()) == BATCHES)
        (transform,) = asked_transforms(file, None)
        assert transform.last is not None
        late = transform.last.totals["late"]
        wait_for(lambda: late_rows(file) == late)
        Requests(store).put_question(SideRowsRequest("repair", "hot", "dlq", None, None, "1"))
        assert process.wait(180) == -signal.SIGKILL, "the sink has the results, and the record does not say so"
    finally:
        process.kill()
    assert [record.state for record in transform.checkpoint.repairs.all()] == ["begun"]
    with supervised(spark, file) as running:
        wait_for(lambda: [record.state for record in transform.checkpoint.repairs.all()] == ["done"])
        assert asked("repair", file, "--from", "dlq")["repaired"] == {}
        more = [{"auction": 3, "price": 5, "ts": 1_700_000_010}, {"auction": 1, "price": 7, "ts": 1_700_000_011}]
        (tmp_path / "in" / "more.json").write_text("".join(json.dumps(row) + "\n" for row in more))
        wait_for(lambda: late_rows(file) == late + 2)
        assert len(asked("repair", file, "--from", "dlq", "--dry-run")["changes"]) == 2
        found = asked("repair", file, "--from", "dlq", "--where", "(event->>'auction')::INT = 3")
        assert (found["repair"], found["repaired"], found["changes"][0]["emit_epoch"]) == (1, {"late": 1}, 3)
        assert asked("repair", file, "--from", "dlq")["repaired"] == {"late": 1}
        assert running.active
    rows, before = results(tmp_path), {row["window_start"] for row in results(tmp_path)}
    assert len({(row["window_start"], row["auction"], row["emit_epoch"]) for row in rows}) == len(rows)
    wanted = {place: value for place, value in computed(tmp_path).items() if place[0] in before}
    assert latest(rows) == wanted
    assert asked("audit", file)["passed"]
    (described,) = asked("inspect", file, "--no-state").values()
    assert (described["totals"]["late"], described["totals"]["repaired"]) == (0, late + 2)


def test_a_replayed_row_counts_once_whatever_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """The batch that takes it is repeated, and takes it again."""
    file = prepare(tmp_path, "1s")
    broken = [
        json.dumps({"auction": key, "price": 8, "ts": 1_700_000_000 + at}) for key, at in ((2, 99), (3, 99), (1, 9))
    ]
    (tmp_path / "in" / "5.json").write_text("".join(f"{text[:-1]}\n" for text in broken))
    config = load_pipeline(file)
    running = Pipeline(config, plan_pipeline(config)).start(spark)
    running.wait()
    running.stop()
    for part in (tmp_path / "dlq").glob("part-*.json"):
        lines = [json.loads(line) for line in part.read_text().splitlines()]
        for each in lines:
            text = each["original_event"].get("_corrupt_record")
            each["original_event"] |= {"_corrupt_record": text + "}"} if text else {}
        part.write_text("".join(json.dumps(each) + "\n" for each in lines))
    errors = ("--from", "dlq", "--where", "kind = 'error'")
    found = asked("replay", file, *errors, "--dry-run")
    assert found["replayed"] == {"error": 2}
    assert ["use windowpane repair" in each["refused"] for each in found["refused"]] == [True]
    one = asked("replay", file, "--from", "dlq", "--where", "event->>'_corrupt_record' LIKE '%\"auction\": 2%'")
    assert (one["replay"], one["after_batch"], one["replayed"]) == (0, 5, {"error": 1})

    on_time = {"auction": 0, "price": 2, "ts": 1_700_000_099}
    (tmp_path / "in" / "6.json").write_text(json.dumps(on_time) + "\n")
    done = subprocess.run([sys.executable, "-c", KILLED_BEHIND_LEDGER, "run", str(file)], check=False)
    assert done.returncode == -signal.SIGKILL
    ledger = transform_checkpoint(FolderStore(tmp_path / "state"), "hot").ledger
    with supervised(spark, file):
        two = asked("replay", file, *errors)
        assert (two["replay"], two["replayed"]) == (1, {"error": 1})
        (tmp_path / "in" / "7.json").write_text(json.dumps(on_time) + "\n")
        wait_for(lambda: (last := ledger.last()) is not None and last.replays == [1])
        (tmp_path / "in" / "8.json").write_text(json.dumps(on_time | {"ts": 1_700_000_200}) + "\n")
        wait_for(lambda: (last := ledger.last()) is not None and last.batch_id >= 8)
        assert asked("replay", file, *errors)["replayed"] == {}
        assert asked("repair", file, *errors)["repaired"] == {"error": 1}
        assert asked("repair", file, "--from", "dlq")["repaired"].keys() == {"late"}
    (tmp_path / "in" / "fixed.json").write_text("".join(f"{text}\n" for text in broken))
    wanted = computed(tmp_path)
    del wanted["2023-11-14T22:16:40.000000Z", 0]
    assert latest(results(tmp_path)) == wanted
    assert asked("audit", file)["passed"]
    (described,) = asked("inspect", file, "--no-state").values()
    totals = described["totals"]
    assert (totals["in"], totals["made"], totals["error"], totals["late"]) == (1006, 0, 0, 0)
    assert totals["in"] == totals["aggregated"] + totals["filtered"] + totals["repaired"]
