"""Finds the files of a micro-batch that cannot be read to their end, and the reason for each.

Text files give a bad record for what cannot be read. A truncated parquet file gives an exception instead, and Spark's
`ignoreCorruptFiles` would skip it silently. So if a batch fails on a file, its files are read one by one with Spark's
own reader. The unreadable ones are recorded in the checkpoint, and the batch is read again without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from windowpane.checkpoint.addresses import folder_of, is_under, plain
from windowpane.config import Stream
from windowpane.errors import gist

_READ_FAILED = "FAILED_READ_FILE"
_IGNORE = "spark.sql.files.ignoreCorruptFiles"
_NOT_FOUND = "PATH_NOT_FOUND"
GONE = "the file was deleted or replaced after it was listed"
"""The reason in the error row of such a file."""


def is_unreadable_file(failed: BaseException) -> bool:
    """Whether a micro-batch failed because a file could not be read."""
    return _READ_FAILED in str(failed)


@contextlib.contextmanager
def skipping_unreadable(spark: SparkSession) -> Iterator[None]:
    """A query that starts in this block reads what it can of each file and skips the rest, as long as it runs."""
    before = spark.conf.get(_IGNORE)
    spark.conf.set(_IGNORE, "true")
    try:
        yield
    finally:
        spark.conf.set(_IGNORE, str(before))


def find_unreadable(
    spark: SparkSession, files: Iterable[str], *, streams: Mapping[str, Stream], base: Path
) -> dict[str, str]:
    """The files of a micro-batch that cannot be read to their end, with the reasons."""
    found = {}
    for path in files:
        name = stream_of(path, streams, base)
        reason = _problem(spark, streams[name], path) if name is not None else None
        if reason is not None:
            found[path] = reason
    return found


def stream_of(path: str, streams: Mapping[str, Stream], base: Path) -> str | None:
    """The name of the stream that an input file belongs to."""
    for name, stream in streams.items():
        if stream.source_format.is_files and stream.path is not None and is_under(path, folder_of(stream.path, base)):
            return name
    return None


def _problem(spark: SparkSession, stream: Stream, path: str) -> str | None:
    """Why Spark cannot read a file to its end; None when it can."""
    reader = spark.read.format(stream.format or "").options(**stream.spark_options)
    if stream.schema_:
        reader = reader.schema(stream.schema_)
    literal = reader.option("__globPaths__", "false")  # as Spark's file source sets it
    try:
        literal.load(plain(path)).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as failed:
        return GONE if _NOT_FOUND in str(failed) else gist(failed)
    return None
