"""Signals as terminals, `timeout` and service managers send them: a stop in order, at any moment of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = [sys.executable, "-c", "from windowpane.cli import main; main()"]
MARK = "WINDOWPANE_TEST_MARK"
FILES, ROWS = 24, 200
PIPELINE = """
[streams.bids]
format = "json"
path = "in"
schema = "k BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_s" }
options = { maxFilesPerTrigger = 1 }

[options]
eventtime = { enabled = true }
shards = 1

[transforms.t]
sql = "SELECT window_start, k, count(*) AS n FROM bids GROUP BY tumblingwindow('ss', 10), k"
sink = "results"

[sinks.results]
format = "json"
path = "out"

[spark]
master = "local[1]"
"""


class Runs:
    """Runs of one pipeline, each in a process group of its own, found again by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {MARK: str(folder)}
        self.process: subprocess.Popen[str] | None = None

    def start(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "run", *args], cwd=self.folder, env=self.environment, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def until(self, is_so: Callable[[], bool]) -> None:
        assert self.process is not None
        deadline = time.monotonic() + 200
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def batches(self) -> int:
        return len(list((self.folder / "state/t/spark/commits").glob("[0-9]*")))

    def state(self) -> str:
        return str(json.loads((self.folder / "state/status.json").read_text())["state"])

    def signal_group(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def marked(self) -> list[int]:
        """All processes that a run has started and that are alive, whatever their group."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                alive = "Z" not in (path / "stat").read_text().rpartition(")")[2].split()[:1]
                if alive and f"{MARK}={self.folder}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def stopped(self) -> str:
        """The run ends in order, says nothing of Java, and leaves no process behind."""
        assert self.process is not None
        out, err = self.process.communicate(timeout=200)
        assert (self.process.returncode, out) == (0, ""), err
        assert "Exception" not in err
        assert "Traceback" not in err
        assert "Error" not in err
        deadline = time.monotonic() + 5
        while self.marked() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.marked() == []
        return err


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    (tmp_path / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        rows = [{"k": row % 7, "ts": file * 5 + row % 5} for row in range(ROWS)]
        (tmp_path / "in" / f"{file:03}.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        os.utime(tmp_path / "in" / f"{file:03}.json", (1e9 + file, 1e9 + file))
    running = Runs(tmp_path)
    yield running
    for pid in running.marked():
        os.kill(pid, signal.SIGKILL)


def expected() -> Counter[tuple[int, int]]:
    rows = [(file * 5 + row % 5, row % 7) for file in range(FILES) for row in range(ROWS)]
    return Counter((ts // 10 * 10, key) for ts, key in rows)


def written(folder: Path) -> Counter[tuple[int, int]]:
    """What the sink has; a window that came out twice counts twice."""
    found: Counter[tuple[int, int]] = Counter()
    for path in (folder / "out").glob("*.json"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            start = time.strptime(row["window_start"][:19], "%Y-%m-%dT%H:%M:%S")
            found[(start.tm_min * 60 + start.tm_sec, row["k"])] += row["n"]
    return found


def test_every_signal_is_a_stop_in_order(runs: Runs) -> None:
    for number, seconds in ((signal.SIGTERM, 0.0), (signal.SIGINT, 1.5), (signal.SIGTERM, 3.5)):
        runs.start()
        assert runs.process is not None
        assert runs.process.stderr is not None
        assert runs.process.stderr.readline() == "starting Spark …\n"
        time.sleep(seconds)
        runs.signal_group(number)
        assert "topped" in runs.stopped()

    runs.start()
    runs.until(lambda: runs.batches() >= 2)
    runs.signal_group(signal.SIGTERM)
    time.sleep(0.1)
    runs.signal_group(signal.SIGTERM)  # `timeout` signals the process and then its group
    assert "Stopped." in runs.stopped()

    runs.start()
    had = runs.batches()
    runs.until(lambda: runs.batches() >= had + 2)
    for pid in runs.marked():  # as systemd does, to everything in the service
        os.kill(pid, signal.SIGTERM)
    assert "Stopped." in runs.stopped()

    runs.start()
    had = runs.batches()
    runs.until(lambda: runs.batches() >= had + 2)
    (runs.folder / "state/control.json").write_text('{"request": "drain"}')
    runs.until(lambda: runs.state() == "draining")
    runs.signal_group(signal.SIGTERM)
    assert "Stopped." in runs.stopped()
    assert runs.batches() < FILES, "the signal came after all"
    assert runs.state() == "stopped"

    runs.start("--drain")
    assert "is finished" in runs.stopped()
    assert written(runs.folder) == expected()
