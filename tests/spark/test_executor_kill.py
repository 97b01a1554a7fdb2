"""Executors of a standalone cluster are killed, come and go, and run tasks twice: the files are those of a calm run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture import account, compare, make_job, output, run_to_end, start
from tests.spark.cluster import kill_an_executor, standalone_cluster

pytestmark = pytest.mark.spark

FILES = 6
SEED = 5
SETTINGS = """
bundle = false
[spark.config]
"spark.executor.memory" = "512m"
"spark.executor.cores" = 1
"spark.cores.max" = 2
"""
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
    killed = job_on(cluster[0], tmp_path / "killed", SETTINGS)
    process = start(killed)
    begun = killed / "state" / "q" / "ledger" / f"{1:012}.json"
    while process.poll() is None and not begun.exists():
        time.sleep(0.05)
    kill_an_executor(cluster[1])
    assert process.wait() == 0, (killed / "run.log").read_text()[-3000:]
    assert not compare(output(calm), output(killed))


def test_tasks_that_run_twice_count_once(calm: Path, cluster: tuple[str, Path], tmp_path: Path) -> None:
    """Speculative execution starts second copies of tasks, and executors come and go with the load."""
    events = tmp_path / "events"
    events.mkdir()
    twice = job_on(cluster[0], tmp_path / "twice", f'{SETTINGS}{TWICE}"spark.eventLog.dir" = "{events.as_uri()}"\n')
    run_to_end(twice)
    assert not compare(output(calm), output(twice))
    assert not account(twice)
    assert sum(path.read_text(encoding="utf-8").count('"Speculative":true') for path in events.rglob("events_*"))
