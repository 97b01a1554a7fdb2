"""A standalone cluster on machines of its own, and drivers of a pipeline on others."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.torture_places import InStore, in_bucket
from scripts.servers import S3, hdfs_command
from tests.cluster.machines import (
    DEADLINE,
    MOUNTS,
    ROOT,
    SCRATCH,
    SPARK_HOME,
    Machine,
    Network,
    network,
    wait_until,
)
from windowpane.bundling import make_bundle

EXECUTOR = "CoarseGrainedExecutorBackend"
_PORT, _STORE_PORT = 7077, 9000
_WORKERS, _DRIVERS = ("worker1", "worker2", "worker3"), ("driver1", "driver2", "driver3")
CACHE = f"{MOUNTS}/cache"
_QUICK = "-XX:TieredStopAtLevel=1"
"""For processes that live for a minute: Java's second compiler would cost more than its code saves."""


@dataclass
class Cluster:
    """`master`: its URL. Workers and drivers by name."""

    network: Network
    folder: Path
    cache: Path
    master: str
    workers: dict[str, Machine] = field(default_factory=dict)

    def driver(self, name: str) -> Machine:
        """A new machine for drivers, which has the project, and bundles that were made before."""
        return self.network.add(name, sees_project=True, shared={CACHE: self.cache})

    def run(
        self, driver: Machine, pipeline: str, *options: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """`windowpane run` there, of a pipeline with this text."""
        driver.run("sh", "-c", f"cat > {SCRATCH}/pipeline.toml", given=pipeline)
        arguments = (sys.executable, "-m", "windowpane", "run", *options, f"{SCRATCH}/pipeline.toml")
        given = {"XDG_CACHE_HOME": CACHE, "PYTHONPATH": str(ROOT / "src"), "SPARK_SUBMIT_OPTS": _QUICK}
        return driver.start(self.log(driver), *arguments, environment=given | dict(environment or {}))

    def log(self, machine: Machine) -> Path:
        return self.folder / f"{machine.name}.log"


@contextlib.contextmanager
def standalone(folder: Path, cache: Path, workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """A master, and workers of so many cores each. `cache`: a folder for bundles."""
    names = ("master", "store", *_WORKERS, *_DRIVERS)
    with network(folder, names) as connected:
        make_bundle_in(cache)
        master = connected.add("master")
        cluster = Cluster(connected, folder, cache, f"spark://{master.address}:{_PORT}")
        options = ("--host", master.address, "--port", str(_PORT), "--webui-port", "0")
        _spark(cluster, master, "org.apache.spark.deploy.master.Master", *options)
        wait_for_port(master.address, _PORT)
        for name in _WORKERS[:workers]:
            start_worker(cluster, name, cores)
        with keeping_logs(connected):
            yield cluster


@contextlib.contextmanager
def keeping_logs(connected: Network) -> Iterator[None]:
    """Keep Spark's logs of the drivers that are there at the end: their disks end with them."""
    try:
        yield
    finally:
        for machine in connected.machines:
            if machine.name in _DRIVERS and machine.holder.poll() is None:
                text = machine.run("sh", "-c", f"cat {SCRATCH}/spark.log || true")
                (connected.folder / f"{machine.name}.spark.log").write_text(text, encoding="utf-8")


def make_bundle_in(cache: Path) -> Path:
    """Where drivers find it."""
    return make_bundle(folder=cache / "windowpane" / "bundles").path


def start_worker(cluster: Cluster, name: str, cores: int = 1) -> Machine:
    machine = cluster.network.add(name)
    options = ("--cores", str(cores), "--memory", "1g", "--host", machine.address, "--webui-port", "0")
    _spark(cluster, machine, "org.apache.spark.deploy.worker.Worker", *options, "--work-dir", f"{SCRATCH}/work",
           cluster.master)  # fmt: skip
    cluster.workers[name] = machine
    return machine


def _spark(cluster: Cluster, machine: Machine, *arguments: str) -> None:
    environment = {"SPARK_HOME": SPARK_HOME, "SPARK_LOCAL_IP": machine.address, "SPARK_NO_DAEMONIZE": "1",
                   "SPARK_DAEMON_JAVA_OPTS": _QUICK}  # fmt: skip
    machine.start(cluster.log(machine), f"{SPARK_HOME}/bin/spark-class", *arguments, environment=environment)


def told(job: Path, command: str, *options: str) -> str:
    """What a command says about the pipeline of a job here, on a machine that has no part in it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(
        [sys.executable, "-m", "windowpane", command, *options, str(job / "pipeline.toml")],
        env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def drain(cluster: Cluster, driver: Machine, process: subprocess.Popen[bytes], job: Path) -> None:
    """Ask a pipeline to end gracefully from here."""
    assert json.loads(told(job, "status", "--json"))["running"]
    assert "Ended gracefully" in told(job, "drain", "--timeout", str(DEADLINE))
    assert process.wait(DEADLINE) == 0, cluster.log(driver).read_text()[-3000:]
    assert not json.loads(told(job, "status", "--json"))["running"]
    found = json.loads(told(job, "inspect", "--no-state", "--json"))
    assert all(transform["finished"] for transform in found.values())


def start_bucket(cluster: Cluster) -> InStore:
    """An S3 server with a bucket, on a machine of its own."""
    machine = cluster.network.add("store", sees_project=True)
    machine.start(cluster.log(machine), sys.executable, str(ROOT / "scripts" / "s3_server.py"), "-H", machine.address,
                  "-p", str(_STORE_PORT))  # fmt: skip
    wait_for_port(machine.address, _STORE_PORT)
    server = S3(machine.address)
    server.url = f"http://{machine.address}:{_STORE_PORT}"
    server.make_bucket()
    return in_bucket(server)


def start_hdfs(cluster: Cluster) -> InStore:
    """An HDFS on a machine of its own."""
    machine = cluster.network.add("store", sees_project=True)
    machine.start(cluster.log(machine), *hdfs_command(f"{SCRATCH}/hdfs", machine.address, _STORE_PORT))
    wait_until(lambda: "ready\n" in cluster.log(machine).read_text(), "HDFS is not ready")
    return InStore(f"hdfs://{machine.address}:{_STORE_PORT}/torture")


def wait_for_port(address: str, port: int) -> None:
    wait_until(lambda: _listens(address, port), f"nothing listens on {address}:{port}")


def _listens(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def on_cluster(job: Path, cluster: Cluster, more: Mapping[str, object]) -> str:
    """The pipeline of a job in a store, with settings for such small machines at its end, where `[spark.config]` is."""
    config = {"spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.network.timeout": "45s",
              "spark.network.timeoutInterval": "10s", "spark.executor.heartbeatInterval": "5s",
              "spark.shuffle.io.maxRetries": 1, "spark.executor.extraJavaOptions": _QUICK} | dict(more)  # fmt: skip
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in config.items()]
    text = (job / "pipeline.toml").read_text(encoding="utf-8").replace("local[2]", cluster.master)
    return text + "\n".join(lines) + "\n"
