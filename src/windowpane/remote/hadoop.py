"""Hadoop's file systems from Python without Spark: a small JVM of our own, with the jars that PySpark brings.

A pipeline takes its lease before Spark starts, and gives it back after Spark has stopped. Commands such as `status` do
not start Spark at all.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from windowpane.errors import ConfigError, gist
from windowpane.remote.access import PREFIX

_MEMORY = "-Xmx256m"
_NAMES = """
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** The names in a folder, one a line: in one call, because each call from Python is a round trip. */
public class WindowpaneNames {
  public String of(FileSystem files, Path folder) throws IOException {
    StringBuilder names = new StringBuilder();
    try {
      if (!files.getFileStatus(folder).isDirectory()) return "";
      FileStatus[] found = files.listStatus(folder);
      for (int at = 0; at < found.length; at++) names.append(found[at].getPath().getName()).append('\\n');
    } catch (FileNotFoundException nothingThere) {
      return "";
    }
    return names.toString();
  }
}
"""


@dataclass(frozen=True)
class HadoopAccess:
    """How Hadoop's file systems are reached: settings of Hadoop and further jars. HADOOP_CONF_DIR applies too."""

    settings: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"HadoopAccess({', '.join(sorted(self.settings))})"

    def __hash__(self) -> int:
        return hash((frozenset(self.settings.items()), self.jars))

    @classmethod
    def of_spark(cls, config: Mapping[str, str], jars: tuple[str, ...] = ()) -> HadoopAccess:
        """By a Spark configuration, in which the names of Hadoop's settings begin with `spark.hadoop.`."""
        return cls(
            {name.removeprefix(PREFIX): value for name, value in config.items() if name.startswith(PREFIX)}, jars
        )


NO_HADOOP = HadoopAccess()


@dataclass(frozen=True)
class HadoopFiles:
    """A file system of Hadoop: `files` is its FileSystem, `context` its FileContext, which renames atomically."""

    jvm: Any
    files: Any
    context: Any
    overwrite: Any
    """The options of a renaming that replaces."""
    keep: Any
    """The options of one that does not."""
    listing: Any
    """A WindowpaneNames."""

    def names(self, address: str) -> list[str]:
        """Names in a folder; none if it is not there, or is a file."""
        return str(self.listing.of(self.files, self.path(address))).splitlines()

    def path(self, address: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(address)


@lru_cache(maxsize=16)
def hadoop_files(root: str, access: HadoopAccess) -> HadoopFiles:
    """The file system of an address; ConfigError if Hadoop does not know its scheme."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    gateway = _gateway(access.jars, os.getpid())
    jvm: Any = gateway.jvm
    settings = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in access.settings.items():
        settings.set(name, value)
    try:
        path = jvm.org.apache.hadoop.fs.Path(root)
        files = path.getFileSystem(settings)
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), settings)
    except Py4JError as unknown:
        hint = "correct the address, or name the jars that know its scheme in [spark] jars"
        message = f"Hadoop cannot open `{root}`: {gist(unknown)}"
        raise ConfigError("BAD_PATH", message, hint, key="options.checkpoint") from unknown
    renaming = getattr(jvm.org.apache.hadoop.fs, "Options$Rename")
    options = [gateway.new_array(renaming, 1), gateway.new_array(renaming, 1)]
    options[0][0], options[1][0] = renaming.OVERWRITE, renaming.NONE
    return HadoopFiles(jvm, files, context, options[0], options[1], _listing(gateway))


@lru_cache(maxsize=2)
def _listing(gateway: Any) -> Any:
    """Compiled once per JVM: Py4J remembers the methods of a class by its name."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_NAMES)
    return compiler.getClassLoader().loadClass("WindowpaneNames").newInstance()


@lru_cache(maxsize=2)
def _gateway(jars: tuple[str, ...], _process: int) -> Any:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # noqa: PLC0415

    found = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (str(Path(found.origin).parent) if found and found.origin else "")
    bridge = glob.glob(f"{home}/jars/py4j-*.jar")  # noqa: PTH207
    parts = [os.environ.get("HADOOP_CONF_DIR", ""), *jars, f"{home}/jars/*"]
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', '')}")
    if not bridge or java is None:
        raise ConfigError("JAVA_MISSING", "checkpoints in Hadoop's file systems need PySpark's jars and Java 17")
    port, token = launch_gateway(
        jarpath=bridge[0], classpath=":".join(filter(None, parts)), javaopts=[_MEMORY, "-XX:+UseSerialGC"],
        java_path=java, die_on_exit=True, create_new_process_group=True, enable_auth=True,
    )  # fmt: skip
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
