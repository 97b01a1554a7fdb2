"""Sends Python and windowpane to the executors of a cluster, so that nothing need be installed there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from windowpane.bundling import make_bundle
from windowpane.config.spark_settings import absolute
from windowpane.errors import ConfigError
from windowpane.spark.submission import is_driver_in_cluster, is_submitted
from windowpane.spark.workers import SENT_FOLDER, chosen_python, is_local

if TYPE_CHECKING:
    from windowpane.config import SparkSettings

ARCHIVES = "spark.archives"
_log = logging.getLogger("windowpane.run")


def bundle_settings(config: Mapping[str, str], settings: SparkSettings, base: Path) -> dict[str, str]:
    """Settings by which executors unpack a bundle. None if they are local, or have an interpreter of the user's choice.

    A driver that runs in the cluster has been started with all that it needs.
    """
    is_wanted = settings.bundle is not False and not is_local(config["spark.master"])
    if not is_wanted or chosen_python(config) is not None or is_driver_in_cluster(config):
        return {}
    if is_submitted():
        raise ConfigError(
            "SPARK_SUBMIT",
            "spark-submit in client mode cannot send Python to the executors: its driver runs in another folder",
            "use `windowpane run`, which is such a driver itself; or name the executors' Python by "
            "`--conf spark.pyspark.python=…`, or use `--deploy-mode cluster`",
        )
    archives = [each for each in config.get(ARCHIVES, "").split(",") if each]
    return {ARCHIVES: ",".join([*archives, f"{_archive(settings, base)}#{SENT_FOLDER}"])}


def _archive(settings: SparkSettings, base: Path) -> str:
    if isinstance(settings.bundle, str):
        return absolute(settings.bundle, base)
    bundle = make_bundle(settings.bundle_packages)
    _log.info("%s bundle for the executors: %s", "new" if bundle.is_new else "same", bundle.path)
    return str(bundle.path)
