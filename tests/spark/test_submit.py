"""windowpane as an application of spark-submit: its settings hold, and what comes too late is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import windowpane
from tests.command_runs import DEADLINE, Runs, feed, results, write_pipeline

pytestmark = pytest.mark.spark

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
APPLICATION = Path(windowpane.__file__).with_name("application.py")


def submit(runs: Runs, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(SPARK_SUBMIT),
        "--master",
        "local[1]",
        "--conf",
        f"spark.pyspark.python={sys.executable}",
        *arguments,
    ]
    return subprocess.run(
        command, cwd=runs.folder, env=runs.environment | {"PYSPARK_SUBMIT_ARGS": ""}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


def test_a_pipeline_is_submitted(runs: Runs) -> None:
    feed(runs.folder, 0, list(range(20)))
    write_pipeline(runs.folder, master="spark://nowhere:7077")
    done = submit(runs, str(APPLICATION), "run", "--drain")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "adds up: 20 = 20" in done.stdout
    assert sum(int(str(row["n"])) for row in results(runs.folder)) == 20


def test_what_comes_too_late_is_refused(runs: Runs) -> None:
    feed(runs.folder, 0, [1])
    write_pipeline(runs.folder, more='files = ["pipeline.toml"]\nproxy_user = "etl"\n')
    done = submit(runs, str(APPLICATION), "run", "--drain")
    assert done.returncode != 0
    assert "[SPARK_SUBMIT] [spark] of the pipeline comes too late for --files, --proxy-user" in done.stdout
    assert "hint: give these options to spark-submit" in done.stdout


def test_drivers_of_python_do_not_run_inside_a_standalone_cluster(runs: Runs) -> None:
    """Spark refuses it before it connects to the master. docs/cluster.md names what restarts a driver there instead."""
    write_pipeline(runs.folder)
    options = ("--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster", "--supervise")
    done = submit(runs, *options, str(APPLICATION), "run")
    assert done.returncode == 1
    assert "not supported for python applications on standalone clusters" in done.stdout
