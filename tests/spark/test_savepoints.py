"""Savepoints on Spark: taken under load, cut off by SIGKILL, started from, and gone back to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.command_runs import Runs
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.job_folders import JobFolder, job_folders
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.config import load_pipeline
from windowpane.errors import StateError
from windowpane.plan.pipeline import plan_pipeline
from windowpane.runtime import Pipeline
from windowpane.runtime.savepoints import GoingBack, find_origin, start_from, with_checkpoint

pytestmark = pytest.mark.spark

PIPELINE = """
[streams.s]
format = "json"
path = "in"
schema = "k BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_s" }
options = { maxFilesPerTrigger = 1 }

[options]
eventtime = { enabled = true }
shards = 2

[transforms.t]
sql = "SELECT window_start, k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 7), k"
sink = "results"
side_output.late = { sink = "reinject", enable_reinject = true, max_reinjections = 1, then = "late" }

[transforms.d]
sql = "SELECT k, count(*) AS n FROM s GROUP BY sessionwindow('ss', 4), k"
sink = "sessions"
dedupe = { key = ["k", "ts"], within = "1m" }

[sinks.results]
format = "json"
path = "out"

[sinks.sessions]
format = "json"
path = "sessions"

[sinks.late]
format = "json"
path = "late"

[spark]
master = "local[1]"
"""
DIES = """
import os, signal
from windowpane.checkpoint.savepoints import Savepoints
complete = Savepoints.complete
def die(self, savepoint, draft):
    if savepoint.name == "cut":
        os.killpg(0, signal.SIGKILL)
    complete(self, savepoint, draft)
Savepoints.complete = die
from windowpane.cli import main
main()
"""
FILES, LATE = 9, 1_000
FILE = re.compile(r"part-(?P<whose>.+?)-(?P<run>[0-9a-f-]{36})-(?P<batch>\d{12})-\d+\.json")


def feed(folder: Path, number: int) -> None:
    """Ten seconds of rows; all but the first files have two that are late whenever they are read."""
    late = [LATE + number, LATE + number] if number > 1 else []
    times = [100_000 + 10 * number + at % 10 for at in range(40)] + late
    (folder / "in").mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"k": at % 5, "ts": ts}) for at, ts in enumerate(times)]
    path = folder / "in" / f"{number:03}.json"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    os.utime(path, (1e9 + number, 1e9 + number))


def written(folder: Path, sink: str, runs: dict[str, int | None]) -> Counter[str]:
    """The rows of these runs, each up to a batch if there is one."""
    found = Counter[str]()
    for path in (folder / sink).glob("part-*.json"):
        name = FILE.fullmatch(path.name)
        assert name is not None
        until = runs.get(name["run"], -1)
        if until is None or int(name["batch"]) <= until:
            found.update(_told(line) for line in path.read_text(encoding="utf-8").splitlines())
    return found


def _told(line: str) -> str:
    """A result as it is; of a side record what does not depend on when it was written."""
    row = json.loads(line)
    return line if "kind" not in row else json.dumps([row["kind"], row["event_time"]])


def job_of(folder: Path, state: str, transform: str) -> JobFolder | None:
    """The job of a transform, which it may share with others; None before the first start."""
    jobs = job_folders(FolderStore(folder / state))
    return next((job for job in jobs if transform in job.homes), None)


def log_of(folder: Path, state: str, transform: str) -> OffsetLog | None:
    job = job_of(folder, state, transform)
    return None if job is None else OffsetLog(FolderStore(folder / state / job.name / job.spark))


def committed(folder: Path) -> int:
    log = log_of(folder, "state", "t")
    return -1 if log is None else log.last_committed()


def run_id(folder: Path, state: str, transform: str) -> str:
    log = log_of(folder, state, transform)
    assert log is not None
    return log.run_id()


def drained(spark: SparkSession, folder: Path, state: str, origin: str | None = None) -> None:
    given = load_pipeline(folder / "pipeline.toml")
    config = with_checkpoint(given, str(folder / state))
    plans = plan_pipeline(config, None)
    if origin is not None:
        start_from(find_origin(origin, given), config, plans)
    Pipeline(config, plans).start(spark).drain()


SINKS = {"out": "t", "late": "t", "sessions": "d"}


def test_a_savepoint_under_load_is_where_others_begin(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "load"
    for place in (folder, tmp_path / "steady"):
        for number in range(FILES):
            feed(place, number)
        (place / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    runs = Runs(folder)
    try:
        runs.process = subprocess.Popen(
            [sys.executable, "-c", DIES, "run"], cwd=folder, env=runs.environment, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        runs.until(lambda: committed(folder) >= 2)
        taken = runs.command("savepoint", "mid", "--json")
        assert taken.returncode == 0, taken.stderr
        cut = runs.command("savepoint", "cut", "--timeout", "60")
        runs.process.communicate()
    finally:
        runs.kill()
    # The command finds that the pipeline has died, and takes the savepoint by itself.
    assert cut.returncode == 0, cut.stderr
    store = FolderStore(folder / "state")
    assert [each.name for each in Savepoints(store).all()] == ["mid", "cut"]
    runs.command("savepoint", "--delete", "cut")

    moments = json.loads(taken.stdout)["jobs"]
    jobs = {transform: job_of(folder, "state", transform) for transform in ("t", "d")}
    until = {transform: moments[job.name]["batch_id"] for transform, job in jobs.items() if job is not None}
    assert 1 <= until["t"] < FILES - 1
    before = {transform: run_id(folder, "state", transform) for transform in ("t", "d")}

    drained(spark, tmp_path / "steady", "state")
    wanted = {
        sink: written(tmp_path / "steady", sink, {run_id(tmp_path / "steady", "state", transform): None})
        for sink, transform in SINKS.items()
    }
    assert sum(wanted["late"].values()) == 2 * (FILES - 2)

    drained(spark, folder, "trial", "mid")
    late_until = json.loads(
        Savepoints(store).files(Savepoints(store).find("mid")).read("t/outbox/late/delivered.json")
        or b'{"batch_id": -1}'
    )
    cuts = {"out": until["t"], "sessions": until["d"], "late": late_until["batch_id"]}
    for sink, transform in SINKS.items():
        both = {before[transform]: cuts[sink], run_id(folder, "trial", transform): None}
        assert written(folder, sink, both) == wanted[sink], f"{sink}: some rows are lost, or there twice"

    drained(spark, folder, "state")
    for sink, transform in SINKS.items():
        assert written(folder, sink, {before[transform]: None}) == wanted[sink], "the original is untouched"

    config = load_pipeline(folder / "pipeline.toml")
    GoingBack.planned(config, plan_pipeline(config, None), "mid", keeps_results=False).carry_out()
    for sink, transform in SINKS.items():
        assert written(folder, sink, {before[transform]: None}) == written(
            folder, sink, {before[transform]: cuts[sink]}
        )
    drained(spark, folder, "state")
    for sink, transform in SINKS.items():
        both = {before[transform]: None, run_id(folder, "state", transform): None}
        assert written(folder, sink, both) == wanted[sink], "no result is there twice after going back"
    with pytest.raises(StateError) as finished:
        Savepoints(store).find("cut")
    assert finished.value.code == "NO_SAVEPOINT"
