"""`windowpane run` and the commands around it, on real Spark: one example, run, looked at, and ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = [sys.executable, "-c", "from windowpane.cli import main; main()"]
NOISE = ("WARN", "Using incubator", "TransformWithState", "Traceback", "log4j", "BrokenPipe")
ENDLESS = """
[streams.ticks]
format = "rate"
options = { rowsPerSecond = 50 }
eventtime = { column = "timestamp", type = "timestamp" }

[options]
eventtime = { enabled = true }
shards = 1

[transforms.beat]
sql = "SELECT window_start, count(*) AS n FROM ticks GROUP BY tumblingwindow('ss', 2)"
sink = "results"

[sinks.results]
format = "json"
path = "out"

[spark]
master = "local[1]"
"""


def windowpane(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def no_noise(text: str) -> bool:
    return not any(word in text for word in NOISE)


def test_the_example_of_init_runs_is_inspected_and_ends(tmp_path: Path) -> None:
    assert windowpane(tmp_path, "init").returncode == 0

    first = windowpane(tmp_path, "run", "--json")
    assert first.returncode == 0, first.stderr
    *batches, end = json_lines(first.stdout)
    assert [batch["batch_id"] for batch in batches] == [0, 1, 2, 3]
    assert sum(batch["rows"] for batch in batches) == end["transforms"]["hot"]["totals"]["in"] == 125
    assert (end["event"], end["outcome"], end["state"]) == ("end", "exhausted", "stopped")
    assert "window_start" in first.stderr, "with --json the console sink's tables go to stderr"
    assert no_noise(first.stdout + first.stderr)

    looked = windowpane(tmp_path, "inspect", "--json")
    assert looked.returncode == 0, looked.stderr
    hot = json.loads(looked.stdout)["hot"]
    windows = {item["start_us"] for item in hot["state"] if item["what"] == "window"}
    assert len(windows) >= 1
    assert all(item["end_us"] - item["start_us"] == 10_000_000 for item in hot["state"] if item["what"] == "window")
    assert hot["source_partitions"].keys() == {"bids/0"}

    drained = windowpane(tmp_path, "run", "--drain")
    assert drained.returncode == 0, drained.stderr
    assert "adds up: 125 = " in drained.stderr
    assert "is finished" in drained.stderr
    assert "window_start" in drained.stdout
    assert no_noise(drained.stdout + drained.stderr)

    again = windowpane(tmp_path, "run")
    assert again.returncode == 1
    assert "[CHECKPOINT_FINISHED]" in again.stderr

    ledger = windowpane(tmp_path, "inspect", "--ledger", "2")
    assert "4 end" in ledger.stdout


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()


def started(folder: Path, processes: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A pipeline that runs and has read rows, now or before it was stopped: then it may still be starting."""
    process = subprocess.Popen([*COMMAND, "run"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    processes.append(process)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        status = windowpane(folder, "status", "--json")
        if status.returncode == 0:
            transforms = json.loads(status.stdout)["transforms"]
            if transforms and transforms["beat"]["totals"]["in"] > 0:
                return process
        time.sleep(0.5)
    process.kill()
    raise AssertionError(process.communicate()[1])


def test_control_from_another_terminal(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    (tmp_path / "pipeline.toml").write_text(ENDLESS, encoding="utf-8")

    process = started(tmp_path, processes)
    second = windowpane(tmp_path, "run")
    assert second.returncode == 1
    assert "[CHECKPOINT_IN_USE]" in second.stderr
    assert "running, process " in windowpane(tmp_path, "status").stdout
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert "Stopped." in told
    assert "start it again to resume" in told
    assert no_noise(told)
    before = json.loads(windowpane(tmp_path, "status", "--json").stdout)
    assert (before["running"], before["state"]) == (False, "stopped")

    process = started(tmp_path, processes)
    drained = windowpane(tmp_path, "drain", "--timeout", "200")
    assert drained.returncode == 0, drained.stderr
    assert "every open window was emitted" in drained.stdout
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    after = json.loads(windowpane(tmp_path, "status", "--json").stdout)["transforms"]["beat"]
    assert after["totals"]["in"] >= before["transforms"]["beat"]["totals"]["in"], "it went on where it had stopped"
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sum(row["n"] for row in rows) == after["totals"]["in"], "every row is in one window"
    assert len({row["window_start"] for row in rows}) == len(rows), "no window came out twice"

    assert windowpane(tmp_path, "stop").returncode == 1


def test_spark_that_does_not_start_is_one_line_and_a_log_file(tmp_path: Path) -> None:
    settings = ENDLESS + '\n[spark.config]\n"spark.driver.memory" = "none"\n'
    (tmp_path / "pipeline.toml").write_text(settings, encoding="utf-8")
    result = subprocess.run([*COMMAND, "run"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "[SPARK_START]" in result.stderr
    assert "state/spark.log" in result.stderr
    assert "Traceback" not in result.stderr
