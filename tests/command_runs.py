"""`windowpane` as a user runs it: a small pipeline in a folder, and processes that end with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

COMMAND = [sys.executable, "-c", "from windowpane.cli import main; main()"]
MARK = "WINDOWPANE_TEST_MARK"
DEADLINE = 400.0
"""Seconds for one step on a busy machine; on an idle one each takes about ten."""
FROM_FILES = """
format = "json"
path = "in"
schema = "k BIGINT, ts BIGINT"
eventtime = { column = "ts", type = "unixtimestamp_s" }
options = { maxFilesPerTrigger = 1 }
"""
ENDLESS = """
format = "rate"
options = { rowsPerSecond = 50 }
eventtime = { column = "timestamp", type = "timestamp" }
"""
PIPELINE = """
[streams.s]
%s
[options]
eventtime = { enabled = true }
shards = 1
%s
[transforms.t]
sql = "SELECT window_start, %s AS k, count(*) AS n FROM s GROUP BY tumblingwindow('ss', 2), %s"
sink = "results"

[sinks.results]
format = "json"
path = "out"

[spark]
master = "%s"
%s
"""


def write_pipeline(
    folder: Path,
    stream: str = FROM_FILES,
    *,
    key: str = "k",
    options: str = "",
    more: str = "",
    master: str = "local[1]",
) -> None:
    """Counts rows by window and `key`. `options` and `more` are lines for `[options]` and after `[spark]`."""
    text = PIPELINE % (stream, options, key, key, master, more)
    (folder / "pipeline.toml").write_text(text, encoding="utf-8")


def feed(folder: Path, number: int, times: list[int]) -> None:
    """A file of the stream, which appears whole; files are read in the order of their numbers."""
    (folder / "in").mkdir(exist_ok=True)
    rows = [json.dumps({"k": at % 7, "ts": ts}) for at, ts in enumerate(times)]
    draft = folder / "in" / f"_{number}.json"
    draft.write_text("\n".join(rows) + "\n", encoding="utf-8")
    os.utime(draft, (1e9 + number, 1e9 + number))
    draft.rename(folder / "in" / f"{number:03}.json")


def results(folder: Path) -> list[dict[str, object]]:
    """The rows that the sink has."""
    files = (folder / "out").glob("*.json")
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


class Runs:
    """Runs of one pipeline, each in a process group of its own, found again by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {MARK: str(folder)}
        self.process: subprocess.Popen[str] | None = None

    def start(self, *args: str) -> None:
        """`windowpane run`, which goes on in the background."""
        self.process = subprocess.Popen(
            [*COMMAND, "run", *args], cwd=self.folder, env=self.environment, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Another command, to its end."""
        return subprocess.run(
            [*COMMAND, *args], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=DEADLINE,
            check=False,
        )  # fmt: skip

    def until(self, is_so: Callable[[], bool]) -> None:
        assert self.process is not None
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def batches(self, state: str = "state") -> int:
        return len(list((self.folder / state / "t/spark/commits").glob("[0-9]*")))

    def state(self) -> str:
        return str(json.loads((self.folder / "state/status.json").read_text())["state"])

    def signal_group(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def java(self) -> int:
        """The process of the run's JVM."""
        names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in self.marked()}
        return next(pid for pid, name in names.items() if name.strip() == "java")

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

    def ended(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        assert self.process is not None
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err

    def stopped(self) -> str:
        """The run ends in order, says nothing of Java, and leaves no process behind."""
        code, out, err = self.ended()
        assert (code, out) == (0, ""), err
        assert "Exception" not in err
        assert "Traceback" not in err
        assert "Error" not in err
        deadline = time.monotonic() + 5
        while self.marked() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.marked() == []
        return err

    def kill(self) -> None:
        """Whatever is left of the runs."""
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.communicate()
