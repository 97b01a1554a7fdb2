"""Files of equal modification time are read in the order of their names, also from a local disk.

Spark's file source sorts files by time, and those of equal time stay as they were listed. HDFS and object stores list
by name; Hadoop's local file system lists in the order of the operating system, which is any. So the driver's local file
system is replaced by one that lists by name: a subclass, compiled by the compiler that Spark brings along.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("windowpane.run")
_NAME = "WindowpaneSortedFiles"
_SOURCE = """
public class {name} extends {base} {{
  public org.apache.hadoop.fs.FileStatus[] listStatus(org.apache.hadoop.fs.Path folder) throws java.io.IOException {{
    org.apache.hadoop.fs.FileStatus[] found = super.listStatus(folder);
    java.util.Arrays.sort(found, new java.util.Comparator() {{
      public int compare(Object left, Object right) {{
        String name = ((org.apache.hadoop.fs.FileStatus) left).getPath().getName();
        return name.compareTo(((org.apache.hadoop.fs.FileStatus) right).getPath().getName());
      }}
    }});
    return found;
  }}
}}
"""


def list_by_name(spark: SparkSession) -> None:
    """Make the driver list local files by name. Executors and the session's configuration stay as they are."""
    try:
        _replace(spark._jvm, spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001  # no Python API has these
    except Py4JError as refused:
        cause = str(getattr(refused, "java_exception", refused)).partition("\n")[0]
        _log.warning("local files of equal modification time are read as the system lists them: %s", cause)


def _replace(jvm: Any, hadoop: Any) -> None:
    systems, local = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI("file:///")
    present = systems.get(local, hadoop)
    base = present.getClass().getName()
    if base == _NAME:
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(present.getClass().getClassLoader())
    compiler.cook(_SOURCE.format(name=_NAME, base=base))
    own = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    own.setClassLoader(compiler.getClassLoader())
    own.set("fs.file.impl", _NAME)
    present.close()  # takes it out of Hadoop's cache, so that the next one that is asked for takes its place
    systems.get(local, own)
