"""What holds if `spark-submit` has started this process: its JVM runs already, with the settings it was given."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext

from windowpane.config.submit_options import OPTIONS
from windowpane.errors import ConfigError

_UNNAMED = "application.py"
"""What Spark calls an application without a name: its file."""
_NAMES = {option.property: option.name for option in OPTIONS}


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_driver_in_cluster(config: Mapping[str, str]) -> bool:
    """Whether `spark-submit` was told to start the driver on a machine of the cluster."""
    return config.get("spark.submit.deployMode") == "cluster"


def submitted_settings() -> dict[str, str]:
    """The properties that `spark-submit` was given, by options, `--conf` and files."""
    SparkContext._ensure_initialized()  # noqa: SLF001  # SparkConf asks the JVM, and connects to none by itself
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name") == _UNNAMED:
        del given["spark.app.name"]
    return given


def check_submission(wanted: Mapping[str, str], given: Mapping[str, str], proxy_user: str | None) -> None:
    """Refuse what `[spark]` asks for and `spark-submit` was not told: now it would have no effect."""
    missing = [_NAMES[name] for name in wanted if not _has_all(given.get(name, ""), wanted[name])]
    missing += ["--proxy-user"] if proxy_user is not None else []
    if missing:
        raise ConfigError(
            "SPARK_SUBMIT", f"[spark] of the pipeline comes too late for {', '.join(missing)}: Spark runs already",
            "give these options to spark-submit, and leave out the keys in [spark]",
        )  # fmt: skip


def _has_all(given: str, wanted: str) -> bool:
    """Whether the files or packages are listed; spark-submit may have put them into other folders."""
    names = {each.rpartition("/")[2] for each in given.split(",")}
    return all(each.rpartition("/")[2] in names for each in wanted.split(","))
