"""A YARN of one node and an HDFS, on machines of their own, and a driver on another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from scripts.servers import HADOOP, YARN, hadoop_command
from tests.cluster.machines import MOUNTS, ROOT, SCRATCH, SPARK_HOME, Machine, network
from tests.cluster.standalone import Cluster, keeping_logs, make_bundle_in, wait_until

CONF = f"{SCRATCH}/conf"
_JARS, _MORE_JARS, _SOURCES = f"{MOUNTS}/hadoop", f"{MOUNTS}/yarn", f"{MOUNTS}/scripts"
_SITE = "<configuration><property><name>{name}</name><value>{value}</value></property></configuration>"


@contextlib.contextmanager
def yarn(folder: Path, cache: Path) -> Iterator[Cluster]:
    """Machines for a store, a node and a driver. Nothing runs on them yet."""
    with network(folder, ("store", "node", "driver1")) as connected:
        make_bundle_in(cache)
        with keeping_logs(connected):
            yield Cluster(connected, folder, cache, "yarn")


def start_node(cluster: Cluster, files: str) -> Machine:
    """The resource manager and its only node, which finds Spark's jars on its disk, and nothing of the project."""
    places = {_JARS: HADOOP / "hdfs", _MORE_JARS: YARN, _SOURCES: ROOT / "scripts"}
    machine = cluster.network.add("node", shared=places)
    jars = (_JARS, _MORE_JARS, f"{SPARK_HOME}/jars")
    command = hadoop_command(f"{_SOURCES}/MiniYarn.java", jars, f"{SCRATCH}/yarn", machine.address, files)
    machine.start(cluster.log(machine), *command)
    wait_until(lambda: "ready\n" in cluster.log(machine).read_text(), "YARN is not ready")
    return machine


def configure(driver: Machine, node: Machine, files: str) -> None:
    """What `HADOOP_CONF_DIR` has on a machine from which jobs are submitted."""
    core = _SITE.format(name="fs.defaultFS", value=files)
    site = _SITE.format(name="yarn.resourcemanager.hostname", value=node.address)
    for name, text in (("core-site", core), ("yarn-site", site)):
        driver.run("sh", "-c", f"mkdir -p {CONF} && cat > {CONF}/{name}.xml", given=text)
