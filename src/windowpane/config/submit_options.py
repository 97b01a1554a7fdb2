"""The options of `spark-submit`, and what each of them is in `[spark]`. A test compares them with its `--help`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SubmitOption:
    """An option. It has a key of its own, or its property belongs in `config`, or it is refused."""

    name: str
    property: str = ""
    """Spark's name of the setting."""
    key: str = ""
    """The key of `[spark]`."""
    has_paths: bool = False
    """Whether the key lists paths, which are relative to pipeline.toml."""
    is_early: bool = False
    """Whether `spark-submit` must know it before it starts the driver."""
    refused: str = ""
    """Why `[spark]` cannot set it."""
    allowed: str = ""
    """The value that a refused property may have, because it changes nothing."""


_HERE = "windowpane run is the driver, so it cannot start one elsewhere"
_CONNECT = "windowpane needs the driver's JVM, which a client of Spark Connect does not have"
OPTIONS = (
    SubmitOption("--master", "spark.master", "master"),
    SubmitOption("--name", "spark.app.name", "app_name"),
    SubmitOption("--jars", "spark.jars", "jars", has_paths=True, is_early=True),
    SubmitOption("--packages", "spark.jars.packages", "packages", is_early=True),
    SubmitOption("--exclude-packages", "spark.jars.excludes", "exclude_packages", is_early=True),
    SubmitOption("--repositories", "spark.jars.repositories", "repositories", is_early=True),
    SubmitOption("--py-files", "spark.submit.pyFiles", "py_files", has_paths=True, is_early=True),
    SubmitOption("--files", "spark.files", "files", has_paths=True, is_early=True),
    SubmitOption("--archives", "spark.archives", "archives", has_paths=True, is_early=True),
    SubmitOption("--proxy-user", key="proxy_user"),
    SubmitOption("--conf", key="config"),
    SubmitOption("--driver-memory", "spark.driver.memory"),
    SubmitOption("--driver-cores", "spark.driver.cores"),
    SubmitOption("--driver-java-options", "spark.driver.extraJavaOptions"),
    SubmitOption("--driver-class-path", "spark.driver.extraClassPath"),
    SubmitOption("--driver-library-path", "spark.driver.extraLibraryPath"),
    SubmitOption("--executor-memory", "spark.executor.memory"),
    SubmitOption("--executor-cores", "spark.executor.cores"),
    SubmitOption("--num-executors", "spark.executor.instances"),
    SubmitOption("--total-executor-cores", "spark.cores.max"),
    SubmitOption("--queue", "spark.yarn.queue"),
    SubmitOption("--principal", "spark.kerberos.principal"),
    SubmitOption("--keytab", "spark.kerberos.keytab"),
    SubmitOption("--deploy-mode", "spark.submit.deployMode", refused=_HERE, allowed="client"),
    SubmitOption("--remote", "spark.remote", refused=_CONNECT),
    SubmitOption("--properties-file", refused="`config` has the properties"),
    SubmitOption("--load-spark-defaults", refused="spark-defaults.conf is always read"),
    SubmitOption("--class", refused="the application is windowpane"),
    SubmitOption("--supervise", "spark.driver.supervise", refused=_HERE, allowed="false"),
    SubmitOption("--kill", refused="a command for a driver in the cluster; `windowpane stop` ends a pipeline"),
    SubmitOption("--status", refused="a command for a driver in the cluster; `windowpane status` describes a pipeline"),
    SubmitOption("--help", refused="it prints something and ends"),
    SubmitOption("--version", refused="it prints something and ends"),
    SubmitOption("--verbose", refused="it prints settings; `spark.log.level` is a property"),
)
