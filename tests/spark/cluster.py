"""A standalone cluster on loopback, from what the PySpark wheel holds. `tests/cluster` has machines of their own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LOOPBACK = "127.0.0.1"
EXECUTOR = "CoarseGrainedExecutorBackend"


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each. Everything that was started is ended.

    The workers have different addresses, because Spark starts no second copy of a task on the same host.
    """
    with started_master(folder, LOOPBACK) as (address, workers):
        for number in range(2):
            workers.append(start_worker(folder / f"worker{number}", f"127.0.0.{number + 1}", address))
        yield address


@contextlib.contextmanager
def started_master(folder: Path, host: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master's address, and a list of its workers: they end with it."""
    port, started = free_port(host), list[subprocess.Popen[bytes]]()
    try:
        master = ["org.apache.spark.deploy.master.Master", "--host", host, "--port", str(port), "--webui-port", "0"]
        started.append(_start(folder / "master", master, host))
        _wait_for(host, port)
        yield f"spark://{host}:{port}", started
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start_worker(folder: Path, host: str, master: str) -> subprocess.Popen[bytes]:
    """A worker of one core."""
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--host", host]
    return _start(folder, [*worker, "--webui-port", "0", "--work-dir", str(folder), master], host)


def kill_in_task(folder: Path) -> bool:
    """SIGKILL an executor of this cluster that is in the middle of a task. False if none is.

    An executor is stopped before its log is read: it logs the end of a task before it reports it to the driver, so a
    task without this line is lost for certain. `spark.log.level` must be INFO.
    """
    for process in executors(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            time.sleep(0.1)  # the worker copies what the executor prints to the file
            in_task = _is_in_task(Path(f"/proc/{process}/cwd/stderr"))
            os.kill(process, signal.SIGKILL if in_task else signal.SIGCONT)
            if in_task:
                return True
    return False


def _is_in_task(log: Path) -> bool:
    with contextlib.suppress(OSError):
        text = log.read_text(encoding="utf-8", errors="replace")
        begun = set(re.findall(r"Running (task .*? \(TID \d+\))", text))
        return bool(begun - set(re.findall(r"Finished (task .*? \(TID \d+\))", text)))
    return False


def executors(folder: Path) -> list[int]:
    """Executors that run under this cluster's workers, by their working folders."""
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if EXECUTOR in command and (process / "cwd").resolve().is_relative_to(folder.resolve()):
                running.append(int(process.name))
    return sorted(running)


def free_port(host: str = LOOPBACK) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _start(folder: Path, arguments: list[str], host: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SPARK_LOCAL_IP": host, "SPARK_NO_DAEMONIZE": "1"}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), *arguments],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait_for(host: str, port: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
