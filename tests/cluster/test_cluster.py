"""A pipeline on machines that share nothing but a store loses executors, a worker and its driver, and no row."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.torture import account, calm_run, compare, make_job, output, unfinished
from bench.torture_places import InStore
from tests.cluster.machines import ROOT, SCRATCH, SPARK_HOME
from tests.cluster.standalone import (
    DEADLINE,
    EXECUTOR,
    Cluster,
    drain,
    on_cluster,
    standalone,
    start_bucket,
    start_hdfs,
    start_worker,
    wait_until,
)
from tests.cluster.yarn import CONF, configure, start_node, yarn

pytestmark = pytest.mark.cluster

FILES = 6
SEED = 5


@pytest.fixture
def cluster(tmp_path: Path, bundles: Path) -> Iterator[Cluster]:
    with standalone(tmp_path, bundles) as started:
        yield started


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, on this machine, undisturbed."""
    return calm_run(tmp_path_factory.mktemp("jobs") / "calm", SEED, FILES)


@pytest.mark.parametrize("start_store", [start_bucket, start_hdfs])
def test_every_kind_of_machine_is_lost(
    cluster: Cluster, start_store: Callable[[Cluster], InStore], calm: Path, tmp_path: Path
) -> None:
    share_nothing(cluster)
    store = start_store(cluster)
    job = make_job(tmp_path / "job", SEED, FILES, place=store)
    begun = partial(store.has_begun, job)

    driver = cluster.driver("driver1")
    process = cluster.run(driver, on_cluster(job, cluster, {"spark.cores.max": 2}), "--drain")
    wait_until(lambda: begun(1), "no second micro-batch", process)
    killed = sum(worker.signal(signal.SIGKILL, EXECUTOR) for worker in cluster.workers.values())
    assert killed, "no executor runs"
    wait_until(lambda: begun(2), "no third micro-batch after the executors were killed", process)
    cluster.workers["worker2"].crash()
    wait_until(lambda: begun(3), "no fourth micro-batch after a worker was lost", process)
    driver.crash()
    process.wait()

    start_worker(cluster, "worker3")
    away = cluster.driver("driver2")
    paused = cluster.run(away, on_cluster(job, cluster, {"spark.cores.max": 1}), "--drain")
    wait_until(lambda: begun(4), "no fifth micro-batch with the second driver", paused)
    away.signal(signal.SIGSTOP)
    last = cluster.driver("driver3")
    process = cluster.run(last, on_cluster(job, cluster, {"spark.cores.max": 1}), "--trigger", "1s")
    wait_until(lambda: f"batch {FILES - 1}:" in cluster.log(last).read_text(), "the last file is not read", process)
    drain(cluster, last, process, job)
    away.signal(signal.SIGCONT)
    assert paused.wait(DEADLINE), "the driver that was away must not end well"
    assert "LEASE_LOST" in cluster.log(away).read_text()

    store.bring_back(job)
    assert "adds up" in cluster.log(last).read_text()
    assert [*compare(output(calm), output(job)), *account(job), *unfinished(job)] == []


def share_nothing(cluster: Cluster) -> None:
    one, two = (cluster.workers[name] for name in ("worker1", "worker2"))
    one.run("touch", f"{SCRATCH}/mine")
    assert "mine" not in two.run("ls", SCRATCH)
    assert one.run("hostname") != two.run("hostname")
    assert one.run("sh", "-c", f"ls {ROOT} | wc -l").strip() == "0", "neither the project nor its Python is there"


def test_on_yarn(tmp_path: Path, bundles: Path, calm: Path) -> None:
    with yarn(tmp_path, bundles) as cluster:
        store = start_hdfs(cluster)
        files = store.address.removesuffix("/torture")
        node = start_node(cluster, files)
        job = make_job(tmp_path / "job", SEED, FILES, place=store)
        driver = cluster.driver("driver1")
        configure(driver, node, files)
        settings = {"spark.executor.instances": 1, "spark.yarn.am.memory": "512m",
                    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*"}  # fmt: skip
        text, environment = on_cluster(job, cluster, settings), {"HADOOP_CONF_DIR": CONF}
        process = cluster.run(driver, text, "--drain", environment=environment)
        wait_until(lambda: store.has_begun(job, 2), "no third micro-batch", process)
        assert node.signal(signal.SIGKILL, EXECUTOR), "no executor runs"
        assert process.wait(DEADLINE) == 0, cluster.log(driver).read_text()[-3000:]
        store.bring_back(job)
        assert [*compare(output(calm), output(job)), *account(job), *unfinished(job)] == []
