"""The commands about a pipeline whose checkpoint is on an S3 server or in HDFS, one after the other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scripts.servers import S3, Hdfs, UnavailableError, hadoop_jars
from tests.command_runs import Runs, feed, results, write_pipeline
from windowpane.checkpoint.store import Store
from windowpane.config import SparkSettings
from windowpane.runtime.location import store_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MASTER = "spark://nobody.invalid:7077"
"""Of a cluster that cannot be reached."""


def test_in_a_bucket(runs: Runs, s3: S3) -> None:
    try:
        jars = tuple(hadoop_jars())
    except UnavailableError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    every_command(runs, f"s3a://{s3.bucket}/{runs.folder.name}", SparkSettings(config={**s3.settings}, jars=jars))


@pytest.mark.long
def test_in_hdfs(runs: Runs, hdfs: Hdfs) -> None:
    every_command(runs, f"{hdfs.url}/{runs.folder.name}", SparkSettings(), with_spark=False)


def every_command(runs: Runs, address: str, spark: SparkSettings, *, with_spark: bool = True) -> None:
    """stop, status, inspect, rescale, drain, reset. The results are those of a pipeline that was left alone.

    `with_spark`: also those for which Spark is started.
    """
    # The file names the jars. Those that a test run has set would take their place.
    runs.environment.pop("PYSPARK_SUBMIT_ARGS", None)
    store, folder = store_at(address, Path(), spark), runs.folder
    for number in range(4):
        feed(folder, number, list(range(number * 12, number * 12 + 12)))
    set_up(folder, address, spark)

    runs.start()
    runs.until(lambda: committed(store) >= 4)
    assert told(runs, "status")["running"]
    assert "Stopped." in runs.command("stop").stdout
    runs.stopped()
    assert not told(runs, "status")["running"]
    before = told(runs, "inspect", "--state" if with_spark else "--no-state")["t"]
    assert (before["shards"], before["committed_batch"], before["totals"]["in"]) == (1, 3, 48)
    if with_spark:
        assert sum(int(each["count"]) for each in before["state"]) > 0
        set_up(folder, address, spark, master=MASTER)
        rescaled = told(runs, "rescale", "--shards", "3")["transforms"]["t"]
        assert (rescaled["shards_before"], len(rescaled["after"])) == (1, 3)
        assert told(runs, "inspect", "--no-state")["t"]["shards"] == 3
        set_up(folder, address, spark, shards=3)

    feed(folder, 4, list(range(48, 60)))
    runs.start()
    runs.until(lambda: committed(store) >= 5)
    assert "Ended gracefully" in runs.command("drain").stdout
    runs.stopped()
    found = results(folder)
    assert sum(int(str(row["n"])) for row in found) == 60
    assert len({(row["window_start"], row["k"]) for row in found}) == len(found)
    assert told(runs, "inspect", "--no-state")["t"]["finished"]

    assert told(runs, "reset", "--yes")["removed"] == ["t"]
    assert store.below("t").read("plan.json") is None


def set_up(folder: Path, address: str, spark: SparkSettings, *, shards: int = 1, master: str = "local[1]") -> None:
    config = "".join(f'"{name}" = "{value}"\n' for name, value in spark.spark_config.items())
    more = f"jars = {json.dumps(spark.jars)}\n[spark.config]\n{config}"
    write_pipeline(folder, options=f'checkpoint = "{address}"', more=more, master=master)
    file = folder / "pipeline.toml"
    file.write_text(file.read_text().replace("shards = 1", f"shards = {shards}"))


def committed(store: Store) -> int:
    """How many micro-batches Spark has committed, with its first state or a later one."""
    transform = store.below("t")
    folders = [name for name in transform.names() if name.partition("-")[0] == "spark"]
    numbers = [
        int(name) + 1 for each in folders for name in transform.below(f"{each}/commits").names() if name.isdigit()
    ]
    return max(numbers, default=0)


def told(runs: Runs, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    done = runs.command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
