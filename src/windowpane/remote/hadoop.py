"""Hadoop's file systems from Python without Spark: a small JVM of our own, with the jars that PySpark brings.

A pipeline takes its lease before Spark starts, and gives it back after Spark has stopped. Commands such as `status` do
not start Spark at all. Java code that the JVM compiles does each operation in one call. It returns errors as texts,
because PySpark looks up every exception that comes from Java in Spark's own JVM.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from windowpane.errors import ConfigError
from windowpane.remote.access import PREFIX

_MEMORY = "-Xmx256m"
_NAME = "WindowpaneFiles"
_SOURCE = """
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** Answers begin with "=", errors with "!". */
public class WindowpaneFiles {
  private FileSystem files;
  private FileContext context;

  public String open(String root, Configuration settings) {
    try {
      files = new Path(root).getFileSystem(settings);
      context = FileContext.getFileContext(new Path(root).toUri(), settings);
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  /** The content as bytes, or null if there is no such file. */
  public Object read(String path) {
    try {
      FSDataInputStream in = files.open(new Path(path));
      try {
        return org.apache.commons.io.IOUtils.toByteArray(in);
      } finally { in.close(); }
    } catch (FileNotFoundException nothingThere) {
      return null;
    } catch (Throwable failed) { return "!" + failed; }
  }

  /** Writes a draft and gives it its name; "=taken" if something has the name, unless it is to be replaced. */
  public String write(String path, String draft, byte[] data, boolean durable, boolean replace) {
    Path written = new Path(draft), target = new Path(path);
    try {
      FSDataOutputStream out = files.create(written, false);
      out.write(data);
      if (durable) out.hsync();
      out.close();
      rename(written, target, replace);
      return "=";
    } catch (Throwable failed) {
      try {
        files.delete(written, false);
        if (!replace && files.exists(target)) return "=taken";
      } catch (IOException alsoFailed) { return "!" + alsoFailed; }
      return "!" + failed;
    }
  }

  private void rename(Path path, Path target, boolean replace) throws IOException {
    Options.Rename option = replace ? Options.Rename.OVERWRITE : Options.Rename.NONE;
    context.rename(path, target, new Options.Rename[] {option});
  }

  public String move(String path, String target) {
    try {
      if (files.exists(new Path(path))) rename(new Path(path), new Path(target), true);
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  public String copy(String path, String target) {
    try {
      return copy(new Path(path), new Path(target)) ? "=yes" : "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  private boolean copy(Path path, Path target) throws IOException {
    if (!files.exists(path)) return false;
    if (!files.getFileStatus(path).isDirectory()) {
      FileUtil.copy(files, path, files, target, false, true, files.getConf());
      return true;
    }
    FileStatus[] found = files.listStatus(path);
    for (int at = 0; at < found.length; at++) {
      Path each = found[at].getPath();
      copy(each, new Path(target, each.getName()));
    }
    return true;
  }

  /** The files below a folder, each as its size, a space, its name from there, and a line break. */
  public String sizes(String path) {
    StringBuilder sizes = new StringBuilder("=");
    try {
      sizes(new Path(path), "", sizes);
    } catch (FileNotFoundException nothingThere) {
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
    return sizes.toString();
  }

  private void sizes(Path folder, String inside, StringBuilder sizes) throws IOException {
    FileStatus[] found = files.listStatus(folder);
    for (int at = 0; at < found.length; at++) {
      String name = inside + found[at].getPath().getName();
      if (found[at].isDirectory()) sizes(found[at].getPath(), name + "/", sizes);
      else sizes.append(found[at].getLen()).append(' ').append(name).append('\\n');
    }
  }

  public String exists(String path) {
    try {
      return files.exists(new Path(path)) ? "=yes" : "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  public String delete(String path, boolean below) {
    try {
      files.delete(new Path(path), below);
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  public String makeFolder(String path) {
    try {
      files.mkdirs(new Path(path));
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
  }

  /** The names in a folder, each before a line break. */
  public String names(String path) {
    StringBuilder names = new StringBuilder("=");
    try {
      if (!files.getFileStatus(new Path(path)).isDirectory()) return "=";
      FileStatus[] found = files.listStatus(new Path(path));
      for (int at = 0; at < found.length; at++) names.append(found[at].getPath().getName()).append('\\n');
    } catch (FileNotFoundException nothingThere) {
      return "=";
    } catch (Throwable failed) { return "!" + failed; }
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
        found = {name.removeprefix(PREFIX): value for name, value in config.items() if name.startswith(PREFIX)}
        return cls(found, jars)


NO_HADOOP = HadoopAccess()


class HadoopError(Exception):
    """What Hadoop answers when it cannot do something."""


@dataclass(frozen=True)
class HadoopFiles:
    """A file system of Hadoop. All methods raise HadoopError, and OSError if the JVM is gone."""

    java: Any
    """A WindowpaneFiles."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it is not there."""
        answer = self._call("read", path)
        return None if answer is None else bytes(answer)

    def write(self, path: str, draft: str, data: bytes, *, durable: bool, replace: bool) -> bool:
        """Write a file, whole or not at all. False if the name is taken, unless it is to be replaced."""
        return bool(self._call("write", path, draft, bytearray(data), durable, replace) == "")

    def move(self, path: str, target: str) -> None:
        self._call("move", path, target)

    def copy(self, path: str, target: str) -> bool:
        """Copy a file, or a folder with everything below it. Whether it is there."""
        return bool(self._call("copy", path, target))

    def sizes(self, path: str) -> dict[str, int]:
        """The sizes of all files below a folder, by their names from there."""
        lines = (line.partition(" ") for line in str(self._call("sizes", path)).split("\n") if line)
        return {name: int(size) for size, _, name in lines}

    def exists(self, path: str) -> bool:
        return bool(self._call("exists", path))

    def delete(self, path: str, *, below: bool) -> None:
        """`below`: a folder with everything in it."""
        self._call("delete", path, below)

    def make_folder(self, path: str) -> None:
        self._call("makeFolder", path)

    def names(self, path: str) -> list[str]:
        """Names in a folder; none if it is not there, or is a file."""
        return str(self._call("names", path)).splitlines()

    def _call(self, name: str, *given: object) -> Any:
        from py4j.protocol import Py4JError  # noqa: PLC0415  # loaded when it is needed

        try:
            answer = getattr(self.java, name)(*given)
        except Py4JError as gone:
            raise OSError(f"the JVM of the file system does not answer: {type(gone).__name__}") from gone
        if not isinstance(answer, str):
            return answer
        if answer.startswith("!"):
            raise HadoopError(answer[1:].partition("\n")[0])
        return answer[1:]


@lru_cache(maxsize=16)
def hadoop_files(root: str, access: HadoopAccess) -> HadoopFiles:
    """The file system of an address; ConfigError if Hadoop does not know its scheme."""
    jvm, loader = _jvm(access.jars, os.getpid())
    settings = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in access.settings.items():
        settings.set(name, value)
    java = loader.loadClass(_NAME).newInstance()
    answer = java.open(root, settings)
    if answer != "=":
        hint = "correct the address, or name the jars that know its scheme in [spark] jars"
        message = f"Hadoop cannot open `{root}`: {answer[1:].partition(chr(10))[0]}"
        raise ConfigError("BAD_PATH", message, hint, key="options.checkpoint")
    return HadoopFiles(java)


@lru_cache(maxsize=2)
def _jvm(jars: tuple[str, ...], _process: int) -> tuple[Any, Any]:
    """A JVM and the class loader of what it has compiled: once, as Py4J knows methods by the name of their class."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # noqa: PLC0415

    spark = _spark_classes()
    bridge = next(filter(_is_bridge, spark), None)
    parts = [os.environ.get("HADOOP_CONF_DIR", ""), *jars, *spark]
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', '')}")
    if bridge is None or java is None:
        raise ConfigError("JAVA_MISSING", "checkpoints in Hadoop's file systems need PySpark's jars and Java 17")
    port, token = launch_gateway(
        jarpath=bridge, classpath=":".join(filter(None, parts)), javaopts=[_MEMORY, "-XX:+UseSerialGC"],
        java_path=java, die_on_exit=True, create_new_process_group=True, enable_auth=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    return gateway.jvm, compiler.getClassLoader()


def _spark_classes() -> list[str]:
    """Spark's jars: of the package, or of the JVM that runs already if the driver is in a container of a cluster.

    Such a container has PySpark as an archive without jars.
    """
    found = find_spec("pyspark")
    home = Path(os.environ.get("SPARK_HOME") or (Path(found.origin).parent if found and found.origin else ""))
    jars = sorted(map(str, (home / "jars").glob("*.jar")))
    if jars or "PYSPARK_GATEWAY_PORT" not in os.environ:
        return jars
    from pyspark import SparkContext  # noqa: PLC0415  # commands that start no Spark do without

    SparkContext._ensure_initialized()  # noqa: SLF001  # connects to the JVM of spark-submit
    system: Any = SparkContext._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001
    return str(system.getProperty("java.class.path")).split(":")


def _is_bridge(jar: str) -> bool:
    """Whether it is the jar of Py4J."""
    return Path(jar).name.startswith("py4j-") and jar.endswith(".jar")
