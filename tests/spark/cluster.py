"""A standalone cluster on loopback, from what the PySpark wheel holds: one master, two workers of one core each."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
EXECUTOR = "CoarseGrainedExecutorBackend"


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The master's address while the cluster runs. Everything that was started is ended."""
    port, started = free_port(), list[subprocess.Popen[bytes]]()
    address = f"spark://127.0.0.1:{port}"
    try:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        started.append(_start(folder / "master", [*master, "--webui-port", "0"]))
        _wait_for(port)
        for number in range(2):
            work = folder / f"worker{number}"
            worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
            started.append(_start(work, [*worker, "--webui-port", "0", "--work-dir", str(work), address]))
        yield address
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_an_executor(folder: Path) -> int:
    """SIGKILL one executor of this cluster; gives its process id."""
    found = executors(folder)
    assert found, "no executor runs"
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def executors(folder: Path) -> list[int]:
    """Executors that run under this cluster's workers, by their working folders."""
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if EXECUTOR in command and (process / "cwd").resolve().is_relative_to(folder.resolve()):
                running.append(int(process.name))
    return sorted(running)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), *arguments], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def _wait_for(port: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
