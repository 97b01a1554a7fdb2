"""The short test of a cluster, which CI runs: the machine of the driver is lost, and another one takes its place."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from bench.torture import calm_run, make_job
from tests.cluster.machines import wait_until
from tests.cluster.rows import SEED, differences
from tests.cluster.standalone import drain, on_cluster, standalone, start_bucket

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 3
ONE_CORE = {"spark.cores.max": 1}
"""The executor of a lost driver may take a while to notice it, and has its core until then."""


def test_nothing_is_shared_but_a_bucket(tmp_path: Path, bundles: Path) -> None:
    """A master, a worker, a store and two drivers, one after the other, each with its own address and disk."""
    with standalone(tmp_path, bundles, workers=1, cores=2) as cluster:
        store = start_bucket(cluster)
        job = make_job(tmp_path / "job", SEED, FILES, place=store)
        begun = partial(store.has_begun, job)
        driver = cluster.driver("driver1")
        process = cluster.run(driver, on_cluster(job, cluster, ONE_CORE), "--drain")
        wait_until(lambda: begun(1), "no second micro-batch", process)
        driver.crash()

        driver = cluster.driver("driver2")
        process = cluster.run(driver, on_cluster(job, cluster, ONE_CORE), "--trigger", "1s")
        wait_until(lambda: f"batch {FILES - 1}:" in cluster.log(driver).read_text(), "a file is not read", process)
        drain(cluster, driver, process, job)
        store.bring_back(job)
    calm = calm_run(tmp_path / "calm", SEED, FILES)
    assert differences(calm, job) == []
