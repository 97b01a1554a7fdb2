"""A pipeline on YARN with everything in HDFS, its driver on a machine of its own or in a container."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture import make_job
from tests.cluster.machines import DEADLINE, wait_until
from tests.cluster.rows import FILES, SEED, differences
from tests.cluster.standalone import EXECUTOR, on_cluster
from tests.cluster.yarn import CONF, IN_CLUSTER, SETTINGS, Yarn, yarn

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, bundles: Path) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn"), bundles) as started:
        yield started


def test_client_mode_loses_an_executor(running: Yarn, calm: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path / "client", SEED, FILES, place=running.store)
    driver, text = running.driver("driver1"), on_cluster(job, running.cluster, SETTINGS)
    process = running.cluster.run(driver, text, "--drain", environment={"HADOOP_CONF_DIR": CONF})
    wait_until(lambda: running.store.has_begun(job, 2), "no third micro-batch", process)
    assert running.node.signal(signal.SIGKILL, EXECUTOR), "no executor runs"
    assert process.wait(DEADLINE) == 0, running.cluster.log(driver).read_text()[-3000:]
    running.store.bring_back(job)
    assert differences(calm, job) == []


def test_cluster_mode(running: Yarn, calm: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path / "cluster", SEED, FILES, place=running.store)
    driver = running.driver("driver2")
    process = running.submit(driver, on_cluster(job, running.cluster, SETTINGS), IN_CLUSTER)
    code = process.wait(DEADLINE)
    assert code == 0, running.logs() + running.cluster.log(driver).read_text()[-2000:]
    assert "adds up" in running.logs(), "the driver was in a container"
    running.store.bring_back(job)
    assert differences(calm, job) == []
