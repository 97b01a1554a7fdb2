"""Engines run in processes of their own: started with a task in a file, watched for memory, answered in a file."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SAMPLING_S = 0.5
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
    command: Sequence[str], task: Mapping[str, Any], *, seconds: float, environment: Mapping[str, str] | None = None
) -> tuple[Any, float]:
    """The engine's answer, and the most megabytes that it and all processes below it held at once."""
    with tempfile.TemporaryDirectory(prefix="windowpane-task-") as folder:
        answer, given, log = Path(folder) / "answer.json", Path(folder) / "task.json", Path(folder) / "log.txt"
        given.write_text(json.dumps({**task, "answer": str(answer)}), encoding="utf-8")
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603  # commands of this benchmark
                [*command, str(given)], stdout=output, stderr=output, start_new_session=True,
                cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **(environment or {})},
            )  # fmt: skip
            peak = Peak(process.pid)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired as late:
                raise EngineError(f"not done within {seconds:.0f} s") from late
            finally:
                peak.stop()
                _end_group(process)
        if process.returncode or not answer.exists():
            raise EngineError(log.read_text(encoding="utf-8", errors="replace")[-3000:])
        return json.loads(answer.read_text(encoding="utf-8")), peak.megabytes


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The process is the leader of its own group, so this ends what it has started and nothing else."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        return
    process.wait()


class Peak:
    """Samples the memory of a process and its descendants until stopped. Pages that they share count once."""

    def __init__(self, pid: int) -> None:
        self.megabytes = 0.0
        self._pid = pid
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLING_S):
            self.megabytes = max(self.megabytes, sum(map(_megabytes, descendants(self._pid))))


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
