"""A pipeline on machines that share nothing but a store loses executors, a worker and its driver, and no row."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.torture import make_job
from bench.torture_places import InStore
from tests.cluster.machines import DEADLINE, ROOT, SCRATCH, wait_until
from tests.cluster.rows import FILES, SEED, differences
from tests.cluster.standalone import (
    EXECUTOR,
    Cluster,
    drain,
    on_cluster,
    standalone,
    start_bucket,
    start_hdfs,
    start_worker,
)

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path, bundles: Path) -> Iterator[Cluster]:
    with standalone(tmp_path, bundles) as started:
        yield started


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
    away.pause()
    last = cluster.driver("driver3")
    process = cluster.run(last, on_cluster(job, cluster, {"spark.cores.max": 1}), "--trigger", "1s")
    wait_until(lambda: f"batch {FILES - 1}:" in cluster.log(last).read_text(), "the last file is not read", process)
    drain(cluster, last, process, job)
    away.resume()
    assert paused.wait(DEADLINE), "the driver that was away must not end well"
    assert "LEASE_LOST" in cluster.log(away).read_text()

    store.bring_back(job)
    assert "adds up" in cluster.log(last).read_text()
    assert differences(calm, job) == []


def share_nothing(cluster: Cluster) -> None:
    one, two = (cluster.workers[name] for name in ("worker1", "worker2"))
    one.run("touch", f"{SCRATCH}/mine")
    assert "mine" not in two.run("ls", SCRATCH)
    assert one.run("hostname") != two.run("hostname")
    assert one.run("sh", "-c", f"ls {ROOT} | wc -l").strip() == "0", "neither the project nor its Python is there"
