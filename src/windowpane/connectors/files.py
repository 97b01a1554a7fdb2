"""File sinks, exactly once: a batch's files bear its id and take their place by renaming, over an earlier attempt's."""

from __future__ import annotations

from typing import Any

from windowpane.connectors.sinks import WHOLE_JSON, Sink, SinkBatch
from windowpane.errors import SinkError, gist

STAGING = "_staging"
"""Hidden from readers, as all names that start with an underscore are."""


class FileSink(Sink):
    """Files named `part-<transform>-<batch>-<number>` in one folder, on any file system that Hadoop knows."""

    delivery = "exactly_once"

    def __init__(self, name: str, format_name: str, path: str, options: dict[str, str]) -> None:
        super().__init__(name)
        self._format, self._path = format_name, path.rstrip("/")
        whole = {"timestampFormat": WHOLE_JSON["timestampFormat"]} if format_name == "csv" else {}
        self._options = (WHOLE_JSON if format_name == "json" else whole) | options

    def write(self, batch: SinkBatch) -> None:
        staging = f"{self._path}/{STAGING}/{batch.identity}"
        format_name = "text" if batch.documents and self._format == "json" else self._format
        try:
            batch.frame.write.format(format_name).mode("overwrite").options(**self._options).save(staging)
            self._take_place(batch, staging)
        except SinkError:
            raise
        except Exception as failed:
            what = f"sink `{self.name}` could not write to {self._path}: {gist(failed)}"
            raise SinkError("SINK_WRITE", what) from failed

    def _take_place(self, batch: SinkBatch, staging: str) -> None:
        """Move the staged files to their names, then remove what an earlier attempt left and the new one has not."""
        jvm: Any = batch.frame.sparkSession._jvm  # noqa: SLF001  # Hadoop's file systems have no Python API
        path_of = jvm.org.apache.hadoop.fs.Path
        folder, staged = path_of(self._path), path_of(staging)
        files = folder.getFileSystem(batch.frame.sparkSession._jsc.hadoopConfiguration())  # noqa: SLF001
        prefix, placed = f"part-{batch.identity}-", set()
        found = sorted(status.getPath().getName() for status in files.listStatus(staged) if status.getLen())
        for number, name in enumerate(name for name in found if name.startswith("part-")):
            target = f"{prefix}{number:05}.{_extension(name)}"
            if batch.documents and self._format == "json":
                target = target.replace(".txt", ".json")
            files.delete(path_of(folder, target), False)
            if not files.rename(path_of(staged, name), path_of(folder, target)):
                raise SinkError("SINK_WRITE", f"sink `{self.name}` could not rename {name} to {target}")
            placed.add(target)
        for status in files.globStatus(path_of(folder, f"{prefix}*")):
            if status.getPath().getName() not in placed:
                files.delete(status.getPath(), False)
        files.delete(staged, True)


def _extension(name: str) -> str:
    """`snappy.parquet` of Spark's `part-00000-<uuid>-c000.snappy.parquet`."""
    return name.partition(".")[2]
