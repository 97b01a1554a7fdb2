"""Makes Hadoop's settings cheap to send to tasks.

Spark serializes all of Hadoop's settings, about 1,100, twice in every micro-batch. Hadoop adds the name of the file
that each one comes from, compressed on its own, which takes ten times longer than the settings themselves.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("windowpane.run")


def forget_origins(spark: SparkSession) -> None:
    """Forget which file each of Hadoop's settings comes from; names and values stay as they are."""
    jvm: Any = spark._jvm  # noqa: SLF001  # no Python API has Hadoop's settings
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        origins = settings.getClass().getDeclaredField("updatingResource")
        origins.setAccessible(True)
        origins.set(settings, jvm.java.util.concurrent.ConcurrentHashMap())
    except Py4JError as refused:
        _log.debug("Hadoop's settings keep their origins: %s", refused)
