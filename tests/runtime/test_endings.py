"""A run that loses its disk or its Spark: one line, exit code 1, and the next start goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_runs import Runs, feed, results, write_pipeline

pytestmark = pytest.mark.spark

MORE = """
[sinks.unused]
format = "postgres"
options = { url = "postgresql://localhost/x", table = "t", password = "${PIPELINE_PASSWORD}" }

[spark.config]
"spark.hadoop.own.password" = "open sesame = \\\\ü"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def test_a_full_disk_then_spark_killed_then_all_of_it(runs: Runs, disk: Path) -> None:
    write_pipeline(runs.folder, options='checkpoint = "disk/state"', more=MORE)
    runs.environment |= {"PIPELINE_PASSWORD": "hunter2"}
    feed(runs.folder, 0, list(range(10)))
    commits = disk / "state" / "t" / "spark" / "commits"
    runs.start()
    runs.until((commits / "0").exists)
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(bytes(4096)):
            pass
    feed(runs.folder, 1, list(range(10, 20)))
    code, _, shown = runs.ended()
    assert code == 1, shown
    assert "[STATE] the checkpoint cannot be written" in shown
    assert "Traceback" not in shown
    (disk / "ballast").unlink()

    runs.start()
    runs.until((commits / "1").exists)
    java = runs.java()
    for file in ("cmdline", "environ"):
        assert b"sesame" not in Path(f"/proc/{java}/{file}").read_bytes()
    del runs.environment["PIPELINE_PASSWORD"]  # only `run` needs it
    status = runs.command("status")
    assert "running, process " in status.stdout, status.stderr
    os.kill(java, signal.SIGKILL)
    code, _, shown = runs.ended()
    assert code == 1, shown
    assert "[SPARK_GONE] Spark's process has ended" in shown
    assert "Traceback" not in shown

    runs.environment |= {"PIPELINE_PASSWORD": "hunter2"}
    last = runs.command("run", "--drain")
    assert last.returncode == 0, last.stderr
    assert "adds up: 20 = " in last.stderr
    state = disk / "state"
    ours = [state, *state.glob("*.*"), state / "t", *(state / "t").glob("*.json"), *(state / "t").glob("ledger/*")]
    assert not {path.name for path in ours if path.stat().st_mode & 0o077}
    assert {path.stat().st_mode & 0o044 for path in (runs.folder / "out").glob("part-*")} == {0o044}
    assert sum(int(str(row["n"])) for row in results(runs.folder)) == 20
