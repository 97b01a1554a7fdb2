"""Hadoop's file systems and settings as a Spark session has them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from windowpane.remote.access import USED, Access


def session_access(spark: SparkSession) -> Access:
    """How the session reaches object stores."""
    settings = hadoop_settings(spark)
    found = {prefix: settings.getPropsWithPrefix(prefix) for prefix in USED}
    return Access({f"{prefix}{name}": value for prefix, named in found.items() for name, value in dict(named).items()})


def hadoop_settings(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  # no Python API has these


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """A path of Hadoop, and its file system."""
    jvm: Any = spark._jvm  # noqa: SLF001  # Hadoop's file systems have no Python API
    found = jvm.org.apache.hadoop.fs.Path(path)
    return found, found.getFileSystem(hadoop_settings(spark))


def renaming_context(spark: SparkSession, path: Any) -> tuple[Any, Any]:
    """What renames files in the file system of a path, and the option with which that replaces a file."""
    context: Any = spark.sparkContext
    fs = context._jvm.org.apache.hadoop.fs  # noqa: SLF001  # no Python API has these
    options = getattr(fs, "Options$Rename")
    replacing = context._gateway.new_array(options, 1)  # noqa: SLF001
    replacing[0] = options.OVERWRITE
    return fs.FileContext.getFileContext(path.toUri(), hadoop_settings(spark)), replacing
