"""Engines run in processes of their own: started with a task in a file, watched for memory, answered in a file."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLING_S = 2.0
"""Adding up the pages of a large process takes some 50 ms of a core, which the engine does not have then."""
ROOT = Path(__file__).resolve().parents[2]


class EngineError(Exception):
    """An engine did not do what it was asked; the text is the end of what it printed."""

    def reason(self) -> str:
        """The line that says why: the last cause of a Java trace, else the last line."""
        printed = [line.strip() for line in str(self).splitlines()]
        lines = [line for line in printed if line and not line.startswith("hint:")] or ["it printed nothing"]
        causes = [line for line in lines if line.startswith("Caused by:")]
        return (causes or lines)[-1][:300]


def execute(
    command: Sequence[str],
    task: Mapping[str, Any],
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    beside: Collection[int] = (),
) -> tuple[Any, Usage]:
    """The engine's answer, and what it took from the machine. `beside`: processes of servers that it reads from."""
    with tempfile.TemporaryDirectory(prefix="windowpane-task-") as folder:
        answer, given, log = Path(folder) / "answer.json", Path(folder) / "task.json", Path(folder) / "log.txt"
        given.write_text(json.dumps({**task, "answer": str(answer)}), encoding="utf-8")
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603  # commands of this benchmark
                [*command, str(given)], stdout=output, stderr=output, start_new_session=True,
                cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **(environment or {})},
            )  # fmt: skip
            watcher = Watcher(process.pid, beside)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired as late:
                raise EngineError(f"not done within {seconds:.0f} s") from late
            finally:
                usage = watcher.stop()
                _end_group(process)
        if process.returncode or not answer.exists():
            raise EngineError(log.read_text(encoding="utf-8", errors="replace")[-3000:])
        return json.loads(answer.read_text(encoding="utf-8")), usage


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The process is the leader of its own group, so this ends what it has started and nothing else."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        return
    process.wait()


@dataclass(frozen=True)
class Usage:
    """`peak_mb`: the most that a process and all below it held at once, pages that they share counted once.

    `others`: the share of the machine's processor time that went to other processes meanwhile. Above some percent the
    figures of the run are worth little.
    """

    peak_mb: float
    others: float


class Watcher:
    """Looks at a process and its descendants now and then, until stopped."""

    def __init__(self, pid: int, beside: Collection[int] = ()) -> None:
        self._pid = pid
        self._peak_mb = 0.0
        self._seconds: dict[int, float] = {}
        self._beside = {server: _cpu_seconds(server) or 0.0 for server in beside}
        self._began, self._busy = time.monotonic(), _busy_seconds()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Usage:
        """To be called before the processes are gone, so that their last seconds count as theirs."""
        self._stopped.set()
        self._thread.join()
        self._look()
        available = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        others = _busy_seconds() - self._busy - sum(self._seconds.values()) - self._served()
        return Usage(self._peak_mb, max(0.0, others / available))

    def _served(self) -> float:
        """Seconds that servers took for it."""
        return sum(max(0.0, (_cpu_seconds(pid) or 0.0) - before) for pid, before in self._beside.items())

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLING_S):
            self._look()

    def _look(self) -> None:
        pids = descendants(self._pid)
        self._peak_mb = max(self._peak_mb, sum(map(_megabytes, pids)))
        self._seconds |= {pid: used for pid in pids if (used := _cpu_seconds(pid)) is not None}


def _busy_seconds() -> float:
    """Of all processors since the start of the machine: user, nice, system, interrupts; not idle, not waiting."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_below(pid: int) -> float:
    """Processor time of a process and all below it so far."""
    return sum(_cpu_seconds(each) or 0.0 for each in descendants(pid))


def _cpu_seconds(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def _megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
