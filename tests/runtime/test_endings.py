"""A run that loses its disk or its Spark: one line, exit code 1, and the next start goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

COMMAND = [str(Path(sys.executable).with_name("windowpane"))]
PIPELINE = """
[streams.s]
format = "json"
path = "data"
schema = "ts BIGINT, k STRING"
eventtime = { column = "ts", type = "unixtimestamp_ms" }
options = { maxFilesPerTrigger = 1 }
[options]
checkpoint = "disk/state"
shards = 1
[transforms.q]
sql = "SELECT k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 1), k"
sink = "out"
[sinks.out]
format = "json"
path = "out"
[sinks.unused]
format = "postgres"
options = { url = "postgresql://localhost/x", table = "t", password = "${PIPELINE_PASSWORD}" }
[spark]
master = "local[1]"
[spark.config]
"spark.hadoop.own.password" = "open sesame = \\\\ü"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
DEADLINE = 400.0
"""Seconds for one step on a busy machine; on an idle one each takes about ten."""
ENVIRONMENT = os.environ | {"PIPELINE_PASSWORD": "hunter2"}
"""For `run`; other commands do without."""


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


def feed(folder: Path, number: int) -> None:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    rows = [json.dumps({"ts": 1000 * (10 * number + each), "k": "a"}) for each in range(10)]
    (data / f"_{number}.json").write_text("\n".join(rows) + "\n")
    (data / f"_{number}.json").rename(data / f"{number}.json")


def begin(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "run"],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)


def java_of(process: subprocess.Popen[str]) -> int:
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    return next(pid for pid in map(int, found.stdout.split()) if "java" in Path(f"/proc/{pid}/comm").read_text())


def test_a_full_disk_then_spark_killed_then_all_of_it(tmp_path: Path, disk: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    feed(tmp_path, 0)
    commits = disk / "state" / "q" / "spark" / "commits"
    process = begin(tmp_path)
    try:
        wait_for(commits / "0", process)
        with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(4096)):
                pass
        feed(tmp_path, 1)
        _, told = process.communicate(timeout=DEADLINE)
        assert process.returncode == 1, told
        assert "[STATE] the checkpoint cannot be written" in told
        assert "Traceback" not in told
        (disk / "ballast").unlink()

        process = begin(tmp_path)
        wait_for(commits / "1", process)
        java = java_of(process)
        for told in ("cmdline", "environ"):
            assert b"sesame" not in Path(f"/proc/{java}/{told}").read_bytes()
        status = subprocess.run([*COMMAND, "status"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "running, process " in status.stdout, status.stderr
        os.kill(java, signal.SIGKILL)
        _, told = process.communicate(timeout=DEADLINE)
        assert process.returncode == 1, told
        assert "[SPARK_GONE] Spark's process has ended" in told
        assert "Traceback" not in told
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    last = subprocess.run(
        [*COMMAND, "run", "--drain"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert last.returncode == 0, last.stderr
    assert "adds up: 20 = " in last.stderr
    state = disk / "state"
    ours = [state, *state.glob("*.*"), state / "q", *(state / "q").glob("*.json"), *(state / "q").glob("ledger/*")]
    assert not {path.name for path in ours if path.stat().st_mode & 0o077}
    assert {path.stat().st_mode & 0o044 for path in (tmp_path / "out").glob("part-*")} == {0o044}
    lines = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert sum(json.loads(line)["n"] for line in lines) == 20
