"""File sinks, exactly once: a batch is one file that bears its run and its id, and takes its place by renaming.

In an object store, where renaming is copying, the store itself copies the file to its name, which shows it whole. A
reader sees a batch whole or not at all, and a batch that comes again takes the place of its own file alone: results of
another checkpoint, or of another pipeline with a transform of the same name, have other names.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from windowpane.connectors.file_names import BATCH_AND_FENCE, STAGING
from windowpane.connectors.hadoop import hadoop_path, hadoop_settings, renaming_context, session_access
from windowpane.connectors.read_back import ORDER, ReadBack, Written
from windowpane.connectors.sinks import WHOLE_JSON, Sink, SinkBatch, SinkSettings
from windowpane.durable import sync_folder
from windowpane.errors import SinkError, StateError, gist
from windowpane.remote.access import Access
from windowpane.remote.objects import client, has_obstore, is_object_store, key_of, obstore_module, scheme_of

_COPIED_BYTES = 5_000_000_000
"""S3 copies objects up to this size in one step. Hadoop copies larger ones in parts."""
BACKFILL = "-backfill"
"""What the folder of backfills has behind the name of the stream's."""


class FileSink(Sink):
    """Files `part-<transform>-<run>-<batch>-<number>` in one folder, on any file system that Hadoop knows.

    A batch is one file, unless the user sets Spark's `maxRecordsPerFile`.
    """

    delivery = "exactly_once"

    def __init__(self, name: str, format_name: str, path: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._format, self._path = format_name, path.rstrip("/")
        whole = {"timestampFormat": WHOLE_JSON["timestampFormat"]} if format_name == "csv" else {}
        self._options = (WHOLE_JSON if format_name == "json" else whole) | dict(options)
        self._tidied: dict[str, int] = {}
        """Prefixes of staging folders of which those of earlier processes were removed, with the fence of this one."""

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> FileSink:
        assert settings.path is not None, "checked when the configuration was loaded"
        return cls(name, settings.format, settings.path, settings.options)

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        self._spark = spark

    def check(self, columns: Sequence[str]) -> None:
        """See whether the folder is there, or can be created below one that is."""
        try:
            place, files = hadoop_path(self._spark, self._path)
            while place is not None and not files.exists(place):
                place = place.getParent()
            is_folder = place is None or files.getFileStatus(place).isDirectory()
        except Exception as failed:
            raise SinkError("SINK_WRITE", f"sink `{self.name}` cannot reach {self._path}: {gist(failed)}") from failed
        if not is_folder:
            what = f"sink `{self.name}` cannot write to {self._path}: {place} is not a folder"
            raise SinkError("SINK_WRITE", what, "remove the file, or set another path")

    @property
    def place(self) -> str:
        """The folder."""
        return self._path

    def for_backfill(self, run: str, *, identified: bool) -> FileSink:
        """In a folder of its own beside the stream's, because files of both would give each window twice."""
        return FileSink(self.name, self._format, f"{self._path}{BACKFILL}/{run}", self._options)

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack:
        """Files are named by batch, so that the last emission is in the last file."""
        spark = expected.sparkSession
        if not self._has(spark, written.prefix()):
            return ReadBack(expected.toArrow(), expected.limit(0).toArrow())
        reader = spark.read.format(self._format).schema(expected.schema).options(**self._options)
        found = reader.load(f"{self._path}/{written.prefix()}*")
        return ReadBack(expected.toArrow(), found.selectExpr("*", f"_metadata.file_name AS {ORDER}").toArrow())

    def side_records(self, spark: SparkSession, written: Written) -> list[str]:
        prefix = written.prefix(side=True)
        if not self._has(spark, prefix):
            return []
        reader = spark.read.schema("value STRING").options(**({} if self._format == "json" else self._options))
        found = reader.format("text" if self._format == "json" else self._format).load(f"{self._path}/{prefix}*")
        return [row[0] for row in found.collect() if row[0]]

    def _has(self, spark: SparkSession, prefix: str) -> bool:
        folder, files = hadoop_path(spark, self._path)
        jvm: Any = spark._jvm  # noqa: SLF001  # Hadoop's file systems have no Python API
        return bool(files.globStatus(jvm.org.apache.hadoop.fs.Path(folder, f"{prefix}*")) or ())

    def write(self, batch: SinkBatch) -> None:
        staging = f"{self._path}/{STAGING}-{batch.identity}-{batch.fence}"
        format_name = "text" if batch.side_records and self._format == "json" else self._format
        try:
            batch.check_lease()
            self._remove_abandoned(batch)
            writer = batch.frame.coalesce(1).write.format(format_name).mode("overwrite").options(**self._options)
            writer.save(staging)
            batch.check_lease()
            self._take_place(batch, staging)
        except Exception as failed:
            self._give_up(batch, staging)
            if isinstance(failed, SinkError | StateError):
                raise
            what = f"sink `{self.name}` could not write to {self._path}: {gist(failed)}"
            raise SinkError("SINK_WRITE", what) from failed

    def _remove_abandoned(self, batch: SinkBatch) -> None:
        """Remove what earlier processes have staged and left behind, when this one first writes."""
        prefix = f"{STAGING}-{batch.identity.rpartition('-')[0]}-"
        if not batch.run or prefix in self._tidied:
            return
        self._remove_staged(batch.frame.sparkSession, prefix, batch.fence)
        self._tidied[prefix] = batch.fence

    def _remove_staged(self, spark: SparkSession, prefix: str, fence: int) -> None:
        """Remove the staging folders of processes before this one."""
        pattern, files = hadoop_path(spark, f"{self._path}/{prefix}*")
        for status in files.globStatus(pattern) or ():
            found = BATCH_AND_FENCE.fullmatch(status.getPath().getName().removeprefix(prefix))
            if found is not None and int(found[1] or -1) < fence:
                files.delete(status.getPath(), True)

    def close(self) -> None:
        """Remove what a process that was away has staged since this one began, and could not remove itself."""
        for prefix, fence in self._tidied.items():
            with contextlib.suppress(Exception):  # the session may be gone; the process that starts next removes it
                self._remove_staged(self._spark, prefix, fence)

    def _give_up(self, batch: SinkBatch, staging: str) -> None:
        """After a failure: if another process has taken over, leave nothing behind. It does not know of this folder."""
        try:
            batch.check_lease()
        except StateError:
            with contextlib.suppress(Exception):  # Spark may be gone; the process that starts next removes it then
                folder, files = hadoop_path(batch.frame.sparkSession, staging)
                files.delete(folder, True)
            raise

    def _take_place(self, batch: SinkBatch, staging: str) -> None:
        """Remove other files of an earlier attempt, then move the staged files to their final names."""
        spark = batch.frame.sparkSession
        jvm: Any = spark._jvm  # noqa: SLF001  # Hadoop's file systems have no Python API
        path_of = jvm.org.apache.hadoop.fs.Path
        (folder, files), staged = hadoop_path(spark, self._path), path_of(staging)
        sizes = {status.getPath().getName(): status.getLen() for status in files.listStatus(staged)}
        parts = sorted(name for name, size in sizes.items() if size and name.startswith("part-"))
        moves = {name: self._target(batch, number, name) for number, name in enumerate(parts)}
        for prefix in _prefixes(batch):
            for status in files.globStatus(path_of(folder, f"{prefix}*")):
                if status.getPath().getName() not in moves.values():
                    files.delete(status.getPath(), False)
        if files.getUri().getScheme() == "file":
            _move_here(Path(staged.toUri().getPath()), Path(folder.toUri().getPath()), moves)
        elif is_object_store(self._path) and has_obstore() and max(sizes.values(), default=0) <= _COPIED_BYTES:
            _copy_there(session_access(spark), staging, self._path, moves)
        else:
            self._move_there(
                spark, folder, [(path_of(staged, name), path_of(folder, to)) for name, to in moves.items()]
            )
        files.delete(staged, True)

    def _target(self, batch: SinkBatch, number: int, name: str) -> str:
        """With the extension of Spark's file: `snappy.parquet` of `part-00000-<uuid>-c000.snappy.parquet`."""
        target = f"part-{batch.identity}-{number:05}.{name.partition('.')[2]}"
        return target.replace(".txt", ".json") if batch.side_records and self._format == "json" else target

    def _move_there(self, spark: SparkSession, folder: Any, moves: list[tuple[Any, Any]]) -> None:
        """For other file systems of Hadoop. On HDFS, renaming replaces atomically; on others it need not replace."""
        if scheme_of(self._path) in ("hdfs", "viewfs"):
            context, replacing = renaming_context(spark, folder)
            for staged, target in moves:
                context.rename(staged, target, replacing)
            return
        files = folder.getFileSystem(hadoop_settings(spark))
        for staged, target in moves:
            files.delete(target, False)
            if not files.rename(staged, target):
                what = f"sink `{self.name}` could not rename {staged.getName()} to {target.getName()}"
                raise SinkError("SINK_WRITE", what)


def _copy_there(access: Access, staging: str, folder: str, moves: dict[str, str]) -> None:
    """For object stores: a copy replaces what is there, and is there as a whole or not at all."""
    bucket = client(folder, access)
    for name, target in moves.items():
        obstore_module().copy(bucket, key_of(f"{staging}/{name}"), key_of(f"{folder}/{target}"))


def _prefixes(batch: SinkBatch) -> tuple[str, ...]:
    """Prefixes of the names of this batch's files; earlier versions omitted the run."""
    return (f"part-{batch.identity}-", *([f"part-{batch.unnamed}-"] if batch.was_unnamed else []))


def _move_here(staged: Path, folder: Path, moves: dict[str, str]) -> None:
    """For local file systems: renaming replaces atomically, and is synced to disk."""
    for name, target in moves.items():
        with (staged / name).open("rb") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            (folder / f".{target}.crc").unlink()  # Hadoop's checksum of an earlier attempt
        (staged / name).replace(folder / target)
    sync_folder(folder)
