"""A pipeline on machines that share nothing but a store loses executors, a worker and its driver, and no row."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture import account, compare, make_job, output, run_to_end, unfinished
from tests.cluster.machines import MOUNTS, SCRATCH
from tests.cluster.standalone import DEADLINE, EXECUTOR, Cluster, spark_table, standalone, wait_until

pytestmark = pytest.mark.cluster

FILES = 8
SHARED = f"{MOUNTS}/shared"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), {SHARED: shared}) as started:
        yield started


def test_machines_share_nothing_else(cluster: Cluster) -> None:
    one, two = cluster.workers.values()
    one.run("touch", f"{SCRATCH}/mine")
    assert "mine" not in two.run("ls", SCRATCH)
    assert one.run("hostname") != two.run("hostname")
    assert one.run("sh", "-c", f"ls {Path(__file__).parents[2]} | wc -l").strip() == "0", "the project is not there"


def test_executors_a_worker_and_the_driver_are_lost(cluster: Cluster, shared: Path) -> None:
    calm, job = make_job(shared / "calm", 5, FILES), make_job(shared / "job", 5, FILES)
    run_to_end(calm)
    file = job / "pipeline.toml"
    file.write_text(file.read_text().partition("[spark]")[0] + spark_table(cluster.master))
    ledger = job / "state" / "q" / "ledger"

    driver = cluster.driver("driver1")
    process = cluster.run(driver, f"{SHARED}/job/pipeline.toml")
    wait_until((ledger / f"{1:012}.json").exists, "no second micro-batch", process)
    first, second = cluster.workers.values()
    assert first.signal(signal.SIGKILL, EXECUTOR) + second.signal(signal.SIGKILL, EXECUTOR), "no executor runs"
    wait_until((ledger / f"{3:012}.json").exists, "no fourth micro-batch after the executors were killed", process)
    second.crash()
    wait_until((ledger / f"{5:012}.json").exists, "no sixth micro-batch after a worker was lost", process)
    driver.crash()
    process.wait()

    elsewhere = cluster.driver("driver2")
    process = cluster.run(elsewhere, f"{SHARED}/job/pipeline.toml")
    assert process.wait(DEADLINE) == 0, cluster.log(elsewhere).read_text()[-3000:]
    assert "adds up" in cluster.log(elsewhere).read_text()
    assert [*compare(output(calm), output(job)), *account(job), *unfinished(job)] == []
