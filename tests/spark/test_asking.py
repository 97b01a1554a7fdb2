"""tune, audit and repair on what real Spark has left: predictions come true, proofs hold, repairs come out once."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from windowpane.cli.app import app
from windowpane.config import load_pipeline
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime import Pipeline
from windowpane.runtime.asking.asked import asked_transforms
from windowpane.runtime.auditing.recomputing import recompute_check
from windowpane.runtime.repairing.repairing import Repair, RepairOptions

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


def run(spark: SparkSession, folder: Path, lag: str) -> Path:
    """One file per micro-batch, then a stop: windows that are open stay open."""
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
    config = load_pipeline(file)
    running = Pipeline(config, plan_pipeline(config)).start(spark)
    running.wait()
    running.stop()
    return file


def asked(command: str, file: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(app, [command, str(file), *arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


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
        for row in map(json.loads, file.read_text().splitlines()):
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
    repair = Repair(transform, RepairOptions("dlq"), lambda: pipeline)
    again = repair.carry_out(spark)
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
