"""A YARN of one node and an HDFS, on machines of their own, and drivers on others or in containers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.torture_places import InStore
from scripts.servers import HADOOP, YARN, hadoop_command
from tests.cluster.machines import MOUNTS, ROOT, SCRATCH, SPARK_HOME, Machine, network, wait_until
from tests.cluster.standalone import CACHE, Cluster, keeping_logs, make_bundle_in, start_hdfs

CONF = f"{SCRATCH}/conf"
_SPARK_JARS = f"local:{SPARK_HOME}/jars/*"
SETTINGS = {"spark.executor.instances": 1, "spark.yarn.am.memory": "512m", "spark.yarn.jars": _SPARK_JARS}
IN_CLUSTER = {
    # Beside Spark's JVM, the container has Python and the small JVM that reaches HDFS.
    "spark.driver.memory": "512m", "spark.driver.memoryOverhead": "1g",
    # How long YARN waits until Python has made a Spark session, on a busy machine.
    "spark.yarn.am.waitTime": "600s", "spark.yarn.jars": _SPARK_JARS,
}  # fmt: skip
_LOGS = f"{SCRATCH}/yarn/logs"
_JARS, _MORE_JARS, _SOURCES = f"{MOUNTS}/hadoop", f"{MOUNTS}/yarn", f"{MOUNTS}/scripts"
_SITE = "<configuration><property><name>{name}</name><value>{value}</value></property></configuration>"


@dataclass(frozen=True)
class Yarn:
    """`node` has the resource manager and runs the containers."""

    cluster: Cluster
    store: InStore
    node: Machine
    bundle: str
    """The name of the archive for executors."""

    def driver(self, name: str) -> Machine:
        """A machine from which jobs are submitted."""
        machine = self.cluster.driver(name)
        _configure(machine, self.node, _files(self.store))
        return machine

    def submit(self, driver: Machine, pipeline: str, settings: Mapping[str, object]) -> subprocess.Popen[bytes]:
        """`spark-submit --deploy-mode cluster` as `windowpane bundle` prints it; ends with the application."""
        driver.run("sh", "-c", f"cat > {SCRATCH}/pipeline.toml", given=pipeline)
        sent = {"spark.archives": f"{CACHE}/windowpane/bundles/{self.bundle}#windowpane",
                "spark.pyspark.python": "./windowpane/bin/python3",
                "spark.python.daemon.module": "windowpane.spark.daemon"}  # fmt: skip
        given = [part for name, value in {**sent, **settings}.items() for part in ("--conf", f"{name}={value}")]
        return driver.start(
            self.cluster.log(driver), f"{SPARK_HOME}/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster",
            "--files", f"{SCRATCH}/pipeline.toml", *given, str(ROOT / "src/windowpane/application.py"), "run",
            "--drain", "pipeline.toml", environment={"HADOOP_CONF_DIR": CONF, "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip

    def logs(self) -> str:
        """What the containers print."""
        return self.node.run("sh", "-c", f"tail -n 100 {_LOGS}/*/*/stderr {_LOGS}/*/*/stdout || true")


@contextlib.contextmanager
def yarn(folder: Path, cache: Path) -> Iterator[Yarn]:
    """Machines for a store and a node, and names for drivers."""
    with network(folder, ("store", "node", "driver1", "driver2")) as connected:
        bundle = make_bundle_in(cache)
        cluster = Cluster(connected, folder, cache, "yarn")
        store = start_hdfs(cluster)
        with keeping_logs(connected):
            yield Yarn(cluster, store, _start_node(cluster, _files(store)), bundle.name)


def _files(store: InStore) -> str:
    """The address of the file system itself."""
    return store.address.removesuffix("/torture")


def _start_node(cluster: Cluster, files: str) -> Machine:
    """The resource manager and its only node, which finds Spark's jars on its disk, and nothing of the project."""
    places = {_JARS: HADOOP / "hdfs", _MORE_JARS: YARN, _SOURCES: ROOT / "scripts"}
    machine = cluster.network.add("node", shared=places)
    jars = (_JARS, _MORE_JARS, f"{SPARK_HOME}/jars")
    command = hadoop_command(f"{_SOURCES}/MiniYarn.java", jars, f"{SCRATCH}/yarn", machine.address, files)
    machine.start(cluster.log(machine), *command)
    wait_until(lambda: "ready\n" in cluster.log(machine).read_text(), "YARN is not ready")
    return machine


def _configure(driver: Machine, node: Machine, files: str) -> None:
    """What `HADOOP_CONF_DIR` has on a machine from which jobs are submitted."""
    core = _SITE.format(name="fs.defaultFS", value=files)
    site = _SITE.format(name="yarn.resourcemanager.hostname", value=node.address)
    for name, text in (("core-site", core), ("yarn-site", site)):
        driver.run("sh", "-c", f"mkdir -p {CONF} && cat > {CONF}/{name}.xml", given=text)
