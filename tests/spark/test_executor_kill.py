"""An executor of a standalone cluster is killed in the middle of a run: the files are those of an undisturbed one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.torture import compare, make_job, output, run_to_end, start
from tests.spark.cluster import kill_an_executor, standalone_cluster

pytestmark = pytest.mark.spark

FILES = 6
SETTINGS = """
bundle = false
[spark.config]
"spark.executor.memory" = "512m"
"spark.executor.cores" = 1
"spark.cores.max" = 2
"""


def test_a_killed_executor_costs_no_row(tmp_path: Path) -> None:
    calm, killed = make_job(tmp_path / "calm", 5, FILES), make_job(tmp_path / "killed", 5, FILES)
    run_to_end(calm)
    with standalone_cluster(tmp_path / "cluster") as address:
        file = killed / "pipeline.toml"
        file.write_text(file.read_text().replace("local[2]", address) + SETTINGS)
        process = start(killed)
        begun = killed / "state" / "q" / "ledger" / f"{1:012}.json"
        while process.poll() is None and not begun.exists():
            time.sleep(0.05)
        kill_an_executor(tmp_path / "cluster")
        assert process.wait() == 0, (killed / "run.log").read_text()[-3000:]
    assert not compare(output(calm), output(killed))
