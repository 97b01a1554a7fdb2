"""Executors on another machine find the driver, and a pipeline runs there to its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_runs import DEADLINE, Runs, feed, results, write_pipeline
from tests.spark.cluster import cluster_elsewhere
from windowpane.connectors.sinks import MemorySink

pytestmark = pytest.mark.spark

MORE = """
[spark.config]
"spark.executor.memory" = "512m"
"""
LARGE_RECORD = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.executor.memory", "512m")
spark = builder.config("spark.rpc.message.maxSize", "1").getOrCreate()
spark.createDataFrame([("x" * 3_000_000,)], "record string").repartition(1).write.format("noop").mode("append").save()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("cluster")
    with cluster_elsewhere(folder) as address:
        yield address, folder


def test_a_pipeline_runs_on_another_machine(runs: Runs, cluster: tuple[str, Path]) -> None:
    address, folder = cluster
    feed(runs.folder, 0, list(range(20)))
    write_pipeline(runs.folder, master=address, more=MORE)
    done = runs.command("run", "--drain")
    assert done.returncode == 0, done.stderr
    assert "adds up: 20 = 20" in done.stderr
    assert sum(int(str(row["n"])) for row in results(runs.folder)) == 20
    assert list((folder / "worker").glob("app-*/0")), "the executor was there"


def test_a_record_that_is_too_large_for_spark_s_messages(cluster: tuple[str, Path]) -> None:
    """What Spark says then counts as a refused record: shorter ones may help."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE_RECORD, cluster[0]], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert "spark.rpc.message.maxSize" in done.stderr, done.stderr[-2000:]
    assert MemorySink("s").refuses_record(RuntimeError(done.stderr))
