"""Opens streams and static tables with Spark. Records that cannot be read are kept as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

from windowpane.config import Stream, Table
from windowpane.connectors import decoding, kafka
from windowpane.connectors.hadoop import hadoop_path
from windowpane.connectors.history import AnyReader, History, reader_of
from windowpane.connectors.limits import limited_options
from windowpane.connectors.sinks import WHOLE_JSON
from windowpane.connectors.table_streams import listed_files, static_rows, table_reading, table_rows
from windowpane.core import columns as c
from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import ConfigError
from windowpane.formats.sources import with_defaults
from windowpane.scan.message_columns import PLACE

_BESIDE = (c.CORRUPT, c.SOURCE_PARTITION, c.REINJECTIONS, SOURCE_TIME, *c.FILE_COLUMNS)
"""Columns that are not part of the original row."""
FILE_SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
"""The schema of Spark's binaryFile format, which a streaming reader does not know."""


@dataclass(frozen=True)
class Reading:
    """Corrections of Spark's list of the files of a micro-batch."""

    once: frozenset[str] = frozenset()
    """Streams whose files Spark would read several times."""
    without: tuple[str, ...] = ()
    """Files that Spark would read although the source's log does not name them."""

    def options(self, name: str) -> dict[str, str]:
        """With a recursive lookup, Spark lists each file once."""
        return {"recursiveFileLookup": "true"} if name in self.once else {}

    def select(self, frame: DataFrame) -> DataFrame:
        """The rows without those of files that must not be read."""
        if not self.without:
            return frame
        # A local file is file:///a in a source's log, and file:/a here.
        paths = [path.replace("file:///", "file:/", 1) for path in self.without]
        return frame.where(~F.col("_metadata.file_path").isin(*paths))


EXACTLY = Reading()
"""Spark's list is right."""
Selecting: TypeAlias = Callable[[DataFrame], DataFrame]


def open_stream(
    spark: SparkSession,
    name: str,
    stream: Stream,
    base: Path,
    *,
    max_records: int,
    originals: bool,
    queue: str | None = None,
    reading: Reading = EXACTLY,
    history: History | None = None,
) -> DataFrame:
    """A stream as Spark reads it, with the columns that the stages need in addition.

    `queue`: the path or URI of the folder of this stream's reinjected rows. `history`: read what is there, as a batch.
    """
    limited = _options(stream, max_records, history) | reading.options(name)
    options = with_defaults(limited, stream.source_format.reader_defaults)
    reader = reader_of(spark, history).format(stream.format or "").options(**options)
    if stream.source_format.is_messages:
        opened = _messages(reader, spark, name, stream)
    elif stream.source_format.is_table:
        reading_table = table_reading(spark, stream, resolved(stream.path, base), options, lists=False)
        opened = table_rows(spark, name, stream, reading_table, history)
    elif stream.source_format.is_files:
        opened = _files(
            reader, spark, name, stream, path=resolved(stream.path, base), select=_selecting(stream, reading, history)
        )
    else:
        opened = _with_stamp(_other(reader, stream, resolved(stream.path, base)), stream)
    if queue is not None:
        opened = opened.unionByName(_queued(spark, queue, opened), allowMissingColumns=True)
    return _with_original(opened, originals=originals)


def _options(stream: Stream, max_records: int, history: History | None) -> dict[str, str]:
    return limited_options(stream, max_records) if history is None else history.options(stream, max_records)


def _selecting(stream: Stream, reading: Reading, history: History | None) -> Selecting:
    """Leaves out the rows of files that must not, or need not, be read."""

    def select(frame: DataFrame) -> DataFrame:
        chosen = reading.select(frame)
        return chosen if history is None else history.of_days(chosen, stream)

    return select


def _messages(reader: AnyReader, spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    """Each Kafka partition is a source partition. Values are decoded if the stream has a schema."""
    records = kafka.load(reader, spark, name, stream)
    stamped = _with_stamp(records.withColumn(c.SOURCE_PARTITION, kafka.source_partition(name, stream)), stream)
    return kafka.decode(stamped, stream) if stream.schema_ else stamped


def _files(
    reader: AnyReader, spark: SparkSession, name: str, stream: Stream, *, path: str | None, select: Selecting
) -> DataFrame:
    """Text that cannot be read is in CORRUPT. `select`: leaves out rows of files that are not to be read."""
    _make_folder(spark, stream, path)
    corrupt = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": c.CORRUPT} if stream.source_format.untyped else {}
    reader = reader.options(**corrupt)
    if decoding.is_read_by_line(stream):
        lines = _with_file(select(decoding.load_lines(reader, stream, path)))
        return decoding.decode_lines(lines, stream, c.FILE_COLUMNS)
    if not stream.schema_:
        reader = reader.schema(_found_schema(spark, name, stream, path))
    else:
        reader = reader.schema(stream.schema_ + (f", `{c.CORRUPT}` STRING" if corrupt else ""))
    return _with_file(select(reader.load(path) if path else reader.load()))


def _other(reader: AnyReader, stream: Stream, path: str | None) -> DataFrame:
    reader = reader.schema(stream.schema_) if stream.schema_ else reader
    return reader.load(path) if path else reader.load()


def list_files(
    spark: SparkSession,
    name: str,
    stream: Stream,
    base: Path,
    *,
    max_records: int,
    reading: Reading = EXACTLY,
    history: History | None = None,
) -> DataFrame:
    """The files of a stream as Spark's file source lists them, with its limits, log and restarts.

    The content is not selected, so Spark does not open any file. `history`: as of `open_stream`.
    """
    path = resolved(stream.path, base)
    _make_folder(spark, stream, path)
    options = _options(stream, max_records, history) | reading.options(name)
    reader = reader_of(spark, history).format("binaryFile").schema(FILE_SCHEMA).options(**options)
    listed = _selecting(stream, reading, history)(reader.load(path))
    if stream.split_bytes is None:
        return listed.select("path", "modificationTime")
    return _divided(listed, stream.split_bytes, spark.sparkContext.defaultParallelism)


def _divided(listed: DataFrame, size: int, tasks: int) -> DataFrame:
    """Parts of the files, spread over tasks."""
    parts = f"explode(sequence(0L, greatest(length - 1, 0L), {size}L)) AS start"
    found = listed.selectExpr("path", "modificationTime", "length", parts)
    end = f"IF(start + {size} >= length, NULL, start + {size}L) AS end"
    return found.selectExpr("path", "modificationTime", "start", end).repartition(tasks)


def list_table(
    spark: SparkSession, name: str, stream: Stream, base: Path, *, max_records: int, history: History | None = None
) -> DataFrame:
    """The files that commits add to a table, which workers read."""
    options = _options(stream, max_records, history)
    reading = table_reading(spark, stream, resolved(stream.path, base), options, lists=True)
    return listed_files(spark, name, reading, history)


def open_records(
    spark: SparkSession,
    name: str,
    stream: Stream,
    *,
    max_records: int,
    own: Sequence[str],
    stamped: bool,
    history: History | None = None,
) -> DataFrame:
    """The records of a Kafka stream with undecoded values, which workers decode.

    `own`: further columns of the record. `stamped`: add the record's timestamp as SOURCE_TIME. `history`: as of
    `open_stream`.
    """
    reader = reader_of(spark, history).format(stream.format or "").options(**_options(stream, max_records, history))
    records = kafka.load(reader, spark, name, stream)
    return kafka.raw(_with_stamp(records, stream) if stamped else records, stream, own)


def open_ranges(spark: SparkSession, name: str, stream: Stream, *, max_records: int) -> DataFrame | None:
    """The offsets of a Kafka stream as Spark's source plans them, with its limits, log and restarts.

    Spark fetches none of their messages. None if this Spark cannot do that.
    """
    reader = spark.readStream.format(stream.format or "").options(**limited_options(stream, max_records))
    return kafka.load_ranges(reader, spark, name)


def _make_folder(spark: SparkSession, stream: Stream, path: str | None) -> None:
    """Create a missing folder if the stream has `create`; ConfigError if it does not."""
    if path is None:
        return
    if stream.lacks_folder(path):
        hint = "correct the path, or set create = true to create the folder and wait for files"
        raise ConfigError("PATH_NOT_FOUND", f"there is no file or folder `{path}`", hint)
    if not stream.create or any(char in path for char in "*?[{"):
        return
    if ":" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)
    else:
        folder, files = hadoop_path(spark, path)
        files.mkdirs(folder)


def _queued(spark: SparkSession, queue: str, like: DataFrame) -> DataFrame:
    """Reinjected rows, from the JSON that `_with_original` made of them. Spark deletes the files that it has read."""
    fields = [field for field in like.schema if field.name not in (SOURCE_TIME, *c.FILE_COLUMNS)]
    reader = spark.readStream.format("json").schema(StructType([*fields, StructField(c.REINJECTIONS, IntegerType())]))
    # Queued files may be old, drafts have other names, and CORRUPT is an ordinary column here.
    options = {"pathGlobFilter": "*.json", "maxFileAge": "3650d", "cleanSource": "delete"}
    options["columnNameOfCorruptRecord"] = "_unreadable"
    found = reader.options(**options).load(queue if "://" in queue else f"file://{queue}")
    stamps = [field for field in fields if field.name == "timestamp" and field.dataType == TimestampType()]
    return found.withColumn(SOURCE_TIME, F.col("timestamp")) if stamps and SOURCE_TIME in like.columns else found


def _found_schema(spark: SparkSession, name: str, stream: Stream, path: str | None) -> StructType:
    """The schema of the existing files, which a streaming reader does not infer."""
    if stream.source_format.untyped:
        raise ConfigError(
            "MISSING_KEY", f"stream `{name}` needs a schema, because its format is {stream.format}",
            f"`windowpane schema {stream.path or 'FILE'}` prints one to paste", key=f"streams.{name}.schema",
        )  # fmt: skip
    try:
        return spark.read.format(stream.format or "").options(**stream.spark_options).load(path).schema
    except AnalysisException as unknown:
        raise ConfigError(
            "SCHEMA_NEEDED", f"stream `{name}` declares no schema, and {path} has no files to take it from",
            'declare it: schema = "auction BIGINT, price BIGINT, ts TIMESTAMP"', key=f"streams.{name}.schema",
        ) from unknown  # fmt: skip


def take_stream(frame: DataFrame, *, originals: bool) -> DataFrame:
    """A stream that the user has opened, as one source partition, with the columns that the stages need in addition."""
    return _with_original(frame, originals=originals)


def open_table(spark: SparkSession, table: Table, base: Path) -> DataFrame:
    """A static table."""
    if table.source_format.is_table:
        return static_rows(spark, table, resolved(table.path, base))
    reader = spark.read.format(table.format or "parquet").options(**table.spark_options)
    if table.schema_:
        reader = reader.schema(table.schema_)
    path = resolved(table.path, base)
    return reader.load(path) if path else reader.load()


def resolved(path: str | None, base: Path) -> str | None:
    """A path of pipeline.toml: relative to its folder unless it is a URL or absolute."""
    if path is None or "://" in path or path.startswith("file:"):
        return path
    return str(base / path)


def _with_file(frame: DataFrame) -> DataFrame:
    """Adds the file of each row, for queries in which the order of rows matters. Others drop these columns."""
    return frame.selectExpr(
        "*",
        f"_metadata.file_path AS {c.FILE}",
        f"unix_micros(_metadata.file_modification_time) AS {c.FILE_TIME}",
        f"_metadata.file_block_start AS {c.FILE_START}",
    )


def _with_original(frame: DataFrame, *, originals: bool) -> DataFrame:
    """Adds the original row as JSON, or the text that could not be read, if a side output needs it."""
    if not originals:
        return frame
    own = [f"`{column}`" for column in frame.columns if column not in _BESIDE]
    whole = F.to_json(F.struct(*(F.col(column) for column in own)), WHOLE_JSON)
    if c.CORRUPT in frame.columns:
        place = [f"`{column}`" for column in PLACE if f"`{column}`" in own and c.SOURCE_PARTITION in frame.columns]
        text = F.to_json(F.struct(F.col(c.CORRUPT), *(F.col(column) for column in place)))
        whole = F.when(F.col(c.CORRUPT).isNotNull(), text).otherwise(whole)
    return frame.withColumn(c.EVENT, whole)


def _with_stamp(frame: DataFrame, stream: Stream) -> DataFrame:
    """Adds the time at which the source recorded a row, a fallback for its event time."""
    column = stream.source_format.timestamp
    return frame if column is None else frame.withColumn(SOURCE_TIME, F.col(column))
