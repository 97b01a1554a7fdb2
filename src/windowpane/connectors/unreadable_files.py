"""Files that cannot be read to their end: which of a micro-batch's files they are, and what is wrong with each.

Text files give a bad record for what cannot be read. A parquet file that is cut off gives an exception instead, and
Spark's `ignoreCorruptFiles` would skip it without a word. So a batch that fails on a file is looked into, file by file
and with Spark's own reader; what is found is written down, and the batch is read again without what is unreadable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from windowpane.checkpoint.offset_log import batch_files, folder_of, is_under, local_path
from windowpane.config import Stream
from windowpane.errors import gist

_READ_FAILED = "FAILED_READ_FILE"
_IGNORE = "spark.sql.files.ignoreCorruptFiles"
_NOT_FOUND = "PATH_NOT_FOUND"
GONE = "the file was deleted or replaced after it was listed"
"""The reason of the error row for such a file."""


def is_damage(failed: BaseException) -> bool:
    """Whether a micro-batch failed because a file could not be read."""
    return _READ_FAILED in str(failed)


@contextlib.contextmanager
def reading_around_damage(spark: SparkSession) -> Iterator[None]:
    """A query that starts now reads of each file what it can, and passes over the rest. It keeps its settings."""
    before = spark.conf.get(_IGNORE)
    spark.conf.set(_IGNORE, "true")
    try:
        yield
    finally:
        spark.conf.set(_IGNORE, str(before))


def damaged_files(
    spark: SparkSession, streams: Mapping[str, Stream], base: Path, checkpoint: str, batch_id: int
) -> dict[str, str]:
    """The files of a micro-batch that cannot be read to their end, each with the reason."""
    found = {}
    for path in batch_files(Path(checkpoint), batch_id):
        name = stream_of(path, streams, base)
        reason = _problem(spark, streams[name], path) if name is not None else None
        if reason is not None:
            found[path] = reason
    return found


def stream_of(path: str, streams: Mapping[str, Stream], base: Path) -> str | None:
    """The name of the stream that a file of a source's log belongs to."""
    for name, stream in streams.items():
        if stream.source_format.is_files and stream.path is not None and is_under(path, folder_of(stream.path, base)):
            return name
    return None


def _problem(spark: SparkSession, stream: Stream, path: str) -> str | None:
    """Why Spark cannot read a file to its end; None when it can."""
    reader = spark.read.format(stream.format or "").options(**stream.spark_options)
    if stream.schema_:
        reader = reader.schema(stream.schema_)
    literal = reader.option("__globPaths__", "false")  # what Spark's own file source sets
    try:
        literal.load(local_path(path) or path).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as failed:
        return GONE if _NOT_FOUND in str(failed) else gist(failed)
    return None
