"""The Spark session: settings that the stages rest on, under whatever the user sets."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from windowpane.config import SparkSettings
from windowpane.remote.objects import is_object_store, scheme_of
from windowpane.spark.gateway import JvmStart, launch_jvm
from windowpane.spark.hadoop_settings import forget_origins
from windowpane.spark.local_files import use_own_local_files
from windowpane.spark.shipping import bundle_settings
from windowpane.spark.submission import check_submission, is_submitted, submitted_settings
from windowpane.spark.workers import folder_of_driver, is_local, use_own_interpreter, worker_python

CHECKPOINT_FILES_KEY = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Takes below 1 ms for a file on a local disk (see `local_files`) where Spark's choice takes 40. The run lock
keeps out a second writer, which is what it does not guard against."""
STREAMED_FILES = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""For object stores: a file appears when its stream is closed, and is not renamed. In the jar spark-hadoop-cloud."""
_CHOSEN_KEY = "windowpane.checkpointFiles"
"""What windowpane has set, to tell it from what the user sets."""
_log = logging.getLogger("windowpane.run")
RETRY_ALL_KEY = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
"""Whether Spark begins a job anew, or ends it, if a task that ran again has written other bytes. A task of ours does:
its messages are the same, but its report tells how long it took. A lost executor would then end the query."""
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Results that go back into Spark as Arrow batches: as local rows they would be unpacked on the driver, one by one.
    "spark.sql.execution.arrow.localRelationThreshold": "1000",
    "spark.sql.execution.arrow.transformWithStateInPySpark.maxRecordsPerBatch": "10000",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "false",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    RETRY_ALL_KEY: "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Workers allocate and free columns of megabytes all the time; without these, each goes to the system and back.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "1073741824",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "1073741824",
    "spark.executorEnv.MALLOC_TOP_PAD_": "67108864",
}
"""What windowpane sets where the user sets nothing."""
ON_YARN = {"spark.python.unix.domain.socket.enabled": "false"}
"""Spark puts a worker's socket into the temporary folder of its container, and that path is too long for a socket."""


def create_session(
    settings: SparkSettings, shards: int | None = None, *, base: Path | None = None, log: Path | None = None
) -> SparkSession:
    """A session by `[spark]`, or by what `spark-submit` was given if it has started this process.

    Paths are relative to `base`. With `log`, everything that the JVM and the Python workers print goes to that file.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    config = _configuration(settings, base or Path())
    if shards is not None:
        config["spark.sql.shuffle.partitions"] = str(shards)
    sent = bundle_settings(config, settings, base or Path())
    with worker_python(config, is_sent=bool(sent)) as settings_for_workers:
        config = settings_for_workers | config | sent
        start = JvmStart(
            _environment(config["spark.master"]), settings.proxy_user, folder_of_driver() if sent else None
        )
        launch_jvm(config, start, log)
        builder = SparkSession.builder
        for name, value in config.items():
            builder = builder.config(name, value)
        return _quiet(builder.getOrCreate())


def _quiet(session: SparkSession) -> SparkSession:
    """PySpark prints a traceback if the JVM is killed, and for each error that it raises; the run says so in a line."""
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_request: None
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    return session


def _environment(master: str) -> dict[str, str]:
    """What the JVM finds in its environment beside ours.

    A local Spark talks to itself alone, and starts faster by the loopback address, also where the machine's name does
    not resolve. The executors of a cluster must find the driver by an address that means the same on their machines.
    """
    return {} if "SPARK_LOCAL_IP" in os.environ or not is_local(master) else {"SPARK_LOCAL_IP": "127.0.0.1"}


def _configuration(settings: SparkSettings, base: Path) -> dict[str, str]:
    """Our defaults, under `[spark]`, under what `spark-submit` was given: its driver runs already."""
    given = submitted_settings() if is_submitted() else {}
    master = given.get("spark.master") or settings.master or os.environ.get("MASTER") or "local[*]"
    config = DEFAULTS | (ON_YARN if master == "yarn" else {}) | settings.spark_config
    config |= {"spark.app.name": settings.app_name or "windowpane", "spark.master": master}
    wanted = settings.for_submission(base)
    if not is_submitted():
        return config | wanted
    check_submission(wanted, given, settings.proxy_user)
    return config | given


def prepare_session(spark: SparkSession, shards: int, checkpoint: str | None = None) -> None:
    """What a query must find in the session it starts from, also in one that the user has made.

    `checkpoint`: the path or address of Spark's own checkpoint, if it is the pipeline's.
    """
    use_own_interpreter(spark)
    use_own_local_files(spark, None if checkpoint is None or scheme_of(checkpoint) else checkpoint)
    forget_origins(spark)
    for name in (
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    ):
        spark.conf.set(name, DEFAULTS[name])
    _choose_checkpoint_files(spark, checkpoint)
    if checkpoint is not None and spark.conf.get(RETRY_ALL_KEY, None) is None:
        spark.conf.set(RETRY_ALL_KEY, DEFAULTS[RETRY_ALL_KEY])
    spark.conf.set("spark.sql.shuffle.partitions", str(shards))


def _choose_checkpoint_files(spark: SparkSession, checkpoint: str | None) -> None:
    """How Spark writes the files of its checkpoint, unless the user has chosen: by what the place does best.

    On other places than these, Spark chooses by itself: on HDFS it renames, which is atomic there. The checkpoint of
    a user's own job (None) may be anywhere.
    """
    if spark.conf.get(CHECKPOINT_FILES_KEY, None) not in (None, spark.conf.get(_CHOSEN_KEY, None)):
        return
    in_objects = checkpoint is not None and is_object_store(checkpoint)
    if checkpoint is not None and not scheme_of(checkpoint):
        chosen: str | None = CHECKPOINT_FILES
    elif in_objects and _has_class(spark, STREAMED_FILES):
        chosen = STREAMED_FILES
    else:
        chosen = None
    if chosen is not None:
        spark.conf.set(CHECKPOINT_FILES_KEY, chosen)
        spark.conf.set(_CHOSEN_KEY, chosen)
        return
    spark.conf.unset(CHECKPOINT_FILES_KEY)
    if in_objects:
        _log.warning(
            "Spark renames the files of its checkpoint %s, which copies them in an object store: "
            "add the package org.apache.spark:spark-hadoop-cloud to [spark]", checkpoint,
        )  # fmt: skip


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm: Any = spark._jvm  # noqa: SLF001  # no Python API tells
    try:
        jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Py4JError:
        return False
    return True


def shard_ids(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """Keys that Spark's hash partitioning spreads over all partitions, one for each."""
    candidates = spark.range(200 * shards).selectExpr(
        "CAST(id AS INT) AS id", f"pmod(hash(CAST(id AS INT)), {shards}) AS p"
    )
    found: dict[int, int] = {}
    for row in candidates.collect():
        found.setdefault(row["p"], row["id"])
    return tuple(found[partition] for partition in range(shards))
