"""Executors of a standalone cluster are killed, come and go, and run tasks twice: the files are those of a calm run."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture import account, compare, make_job, output, run_to_end, start
from bench.torture_places import IN_FOLDER
from tests.command_runs import DEADLINE
from tests.spark.cluster import kill_in_task, standalone_cluster
from windowpane.connectors.sinks import MemorySink

pytestmark = [pytest.mark.spark, pytest.mark.long]

FILES = 6
SEED = 5
SETTINGS = """
bundle = false
[spark.config]
"spark.executor.memory" = "512m"
"spark.executor.cores" = 1
"spark.cores.max" = 2
"""
KILLED = """
"spark.task.maxFailures" = 1
"spark.log.level" = "INFO"
"""
"""With INFO, the log of an executor names the tasks that it runs."""
REPEATED = "Spark lost executors, micro-batch"
TWICE = """
"spark.speculation" = true
"spark.speculation.interval" = "10ms"
"spark.speculation.minTaskRuntime" = "0ms"
"spark.speculation.multiplier" = 1.0
"spark.speculation.quantile" = 0.1
"spark.dynamicAllocation.enabled" = true
"spark.dynamicAllocation.shuffleTracking.enabled" = true
"spark.dynamicAllocation.executorIdleTimeout" = "1s"
"spark.eventLog.enabled" = true
"spark.eventLog.compress" = false
"""

LARGE_RECORD = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.executor.memory", "512m")
spark = builder.config("spark.rpc.message.maxSize", "1").getOrCreate()
spark.createDataFrame([("x" * 3_000_000,)], "record string").repartition(1).write.format("noop").mode("append").save()
"""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = make_job(tmp_path_factory.mktemp("calm") / "job", SEED, FILES)
    run_to_end(job)
    return job


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder) as address:
        yield address, folder


def job_on(address: str, folder: Path, settings: str) -> Path:
    job = make_job(folder, SEED, FILES)
    file = job / "pipeline.toml"
    file.write_text(file.read_text().replace("local[2]", address) + settings)
    return job


def test_a_killed_executor_costs_no_row(calm: Path, cluster: tuple[str, Path], tmp_path: Path) -> None:
    """Spark gives up a batch if a task loses its executor as often as it may fail. windowpane repeats the batch."""
    killed = job_on(cluster[0], tmp_path / "killed", f"{SETTINGS}{KILLED}")
    process, log = start(killed), killed / "run.log"
    while process.poll() is None and not IN_FOLDER.has_begun(killed, 1):
        time.sleep(0.02)
    while process.poll() is None and REPEATED not in log.read_text():
        heard = log.stat().st_size
        if kill_in_task(cluster[1]):  # a task of a batch, or of a sink, which tries again by itself
            wait_for_more(log, heard)
        time.sleep(0.02)
    assert process.wait() == 0, log.read_text()[-3000:]
    assert not compare(output(calm), output(killed))
    assert REPEATED in log.read_text()
    assert readable(killed / "state") <= {("q", "spark", "state"), ("every", "spark", "state")}
    assert stat.S_IMODE((killed / "state" / "q" / "spark").stat().st_mode) == 0o700, "which keeps others from the state"


def wait_for_more(log: Path, heard: int, seconds: float = 20) -> None:
    """A batch is repeated once: none may be hit again before the log says that it is repeated."""
    deadline = time.monotonic() + seconds
    while log.stat().st_size == heard and time.monotonic() < deadline:
        time.sleep(0.02)


def readable(folder: Path) -> set[tuple[str, ...]]:
    """Where others could read files if they could enter the folders: in the state, which executors write."""
    return {path.relative_to(folder).parts[:3] for path in folder.rglob("*") if path.stat().st_mode & 0o077}


def test_tasks_that_run_twice_count_once(calm: Path, cluster: tuple[str, Path], tmp_path: Path) -> None:
    """Speculative execution starts second copies of tasks, and executors come and go with the load."""
    events = tmp_path / "events"
    events.mkdir()
    twice = job_on(cluster[0], tmp_path / "twice", f'{SETTINGS}{TWICE}"spark.eventLog.dir" = "{events.as_uri()}"\n')
    run_to_end(twice)
    assert not compare(output(calm), output(twice))
    assert not account(twice)
    assert sum(path.read_text(encoding="utf-8").count('"Speculative":true') for path in events.rglob("events_*"))


def test_a_record_that_is_too_large_for_spark_s_messages(cluster: tuple[str, Path]) -> None:
    """What Spark says then counts as a refused record: shorter ones may help."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE_RECORD, cluster[0]], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert "spark.rpc.message.maxSize" in done.stderr, done.stderr[-2000:]
    assert MemorySink("s").refuses_record(RuntimeError(done.stderr))
