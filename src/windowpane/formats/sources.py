"""Formats of streams and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from windowpane.formats.registry import Registry, Target

KAFKA = "kafka"
KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Maven coordinates of the connector that Spark needs for it."""
Unit: TypeAlias = Literal["bytes", "records"]
Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names and Spark types."""


@dataclass(frozen=True)
class Limit:
    """How a micro-batch is limited: in which unit, and by which option of Spark's source."""

    unit: Unit
    option: str
    excluded_by: frozenset[str]
    """Options, in lower case, beside which Spark does not take `option`."""


@dataclass(frozen=True)
class SourceFormat:
    """What windowpane knows of a format. The defaults are those of a format that only Spark knows."""

    name: str
    kind: Literal["files", "messages", "table", "other"] = "other"
    """files: a folder of files. messages: records with a value that a codec decodes. table: files that a log names."""
    read_by_spark: bool = True
    untyped: bool = False
    """Text without types: a schema is required, since one odd value would change an inferred type. Spark's reader keeps
    the text of records that do not fit."""
    plain: bool = False
    """Each line is one text, the only column that is not named by folders."""
    endings: tuple[str, ...] = ()
    """How the names of its files end."""
    sampled: bool = False
    """`windowpane schema` infers a schema from its files."""
    columns: Columns | None = None
    """The columns of a stream without a schema, where Spark's source fixes them."""
    record_columns: Columns = ()
    """Columns beside those of a decoded value. `*` does not include them."""
    timestamp: str | None = None
    """The column with the time at which the source itself recorded a row."""
    codec: str | None = None
    """How lines or values are decoded, unless the stream's `value_format` says otherwise."""
    reader_defaults: tuple[tuple[str, str], ...] = ()
    """Options for Spark's reader that the user may override."""
    whole_file_options: frozenset[str] = frozenset()
    """Options, in lower case, with which a record is no longer a line, and Spark's reader reads the files."""
    file_reader: Target | None = None
    """How workers read a file: see `windowpane.scan.files`. None: only Spark reads it."""
    by_place: bool = False
    """Columns are found by their place. `file_reader` then makes the reader of the declared columns and options."""
    table_log: str | None = None
    """Of a table: the class that reads its log. See `windowpane.remote.table_log`."""
    worker_types: frozenset[str] | None = None
    """The Spark types of columns that workers read from files without a codec; None: all that workers know."""
    worker_options: frozenset[str] = frozenset()
    """Options for such files, in lower case, that workers understand. A stream with others is left to Spark."""
    divisible: bool = False
    """The reader of workers can read a part of a file, so that several tasks can share one."""
    selecting_options: frozenset[str] = frozenset()
    """Options, in lower case, that select what is read, not how it is decoded."""
    client_prefix: str | None = None
    """How options of the source's client begin, which do not concern decoding either."""
    required_options: tuple[tuple[str, ...], ...] = ()
    """Of each group, a stream needs one."""
    limit: Limit | None = None
    needs_path: bool = False
    extra: str | None = None
    """What to install with it: `windowpane[extra]`."""
    keeps_rows: bool = True
    """Rows that were read once can be read again, by a backfill."""

    @property
    def is_files(self) -> bool:
        return self.kind == "files"

    @property
    def is_messages(self) -> bool:
        return self.kind == "messages"

    @property
    def is_table(self) -> bool:
        return self.kind == "table"

    @property
    def read_by_workers(self) -> bool:
        """Whether there is a columnar scan for it."""
        return self.is_messages or self.file_reader is not None

    def decoding_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Those of a stream's options that say how rows are decoded."""
        return {name: value for name, value in options.items() if not self._selects(name.lower())}

    def _selects(self, option: str) -> bool:
        return option in self.selecting_options or (
            self.client_prefix is not None and option.startswith(self.client_prefix)
        )


def with_defaults(options: Mapping[str, str], defaults: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Options, and the defaults of those that are not set in any letter case."""
    given = {name.lower() for name in options}
    return {name: value for name, value in defaults if name.lower() not in given} | dict(options)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


_FILE_OPTIONS = _lower([
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "cleanSource",
    "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup", "modifiedAfter", "modifiedBefore",
])  # fmt: skip
_KAFKA_OPTIONS = _lower([
    "subscribe", "subscribePattern", "assign", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "groupIdPrefix", "includeHeaders",
])  # fmt: skip
_FILE_LIMIT = Limit("bytes", "maxBytesPerTrigger", _lower(["maxFilesPerTrigger", "maxBytesPerTrigger"]))
# Spark refuses a maximum below the user's minimum.
_KAFKA_LIMIT = Limit("records", "maxOffsetsPerTrigger", _lower(["maxOffsetsPerTrigger", "minOffsetsPerTrigger"]))
_RATE_COLUMNS = (("timestamp", "TIMESTAMP"), ("value", "BIGINT"))


_FILES = SourceFormat("", kind="files", needs_path=True, selecting_options=_FILE_OPTIONS, limit=_FILE_LIMIT)
JSON_DEFAULTS = (("allowSingleQuotes", "false"),)
"""As other readers of JSON do."""
_JSON_FILES = replace(
    _FILES,
    name="json",
    endings=("json", "jsonl", "ndjson"),
    untyped=True,
    sampled=True,
    codec="json",
    reader_defaults=JSON_DEFAULTS,
    whole_file_options=_lower(["multiLine", "encoding", "charset"]),
    file_reader="windowpane.scan.json.files:read_batches",
    divisible=True,
)
_TABLE = SourceFormat(
    "",
    kind="table",
    needs_path=True,
    file_reader="windowpane.scan.columnar_files:read_parquet",
    selecting_options=_lower(["maxFilesPerTrigger", "maxBytesPerTrigger", "starting_after", "skip_changes", "table"]),
    limit=_FILE_LIMIT,
)
_KAFKA_SOURCE = SourceFormat(
    KAFKA,
    kind="messages",
    columns=(
        ("key", "BINARY"), ("value", "BINARY"), ("topic", "STRING"), ("partition", "INT"), ("offset", "BIGINT"),
        ("timestamp", "TIMESTAMP"), ("timestampType", "INT"),
    ),
    record_columns=(
        ("key", "STRING"), ("topic", "STRING"), ("partition", "INT"), ("offset", "BIGINT"), ("timestamp", "TIMESTAMP"),
    ),
    timestamp="timestamp",
    codec="json",
    selecting_options=_KAFKA_OPTIONS,
    client_prefix="kafka",
    required_options=(("kafka.bootstrap.servers",), ("subscribe", "subscribePattern", "assign")),
    limit=_KAFKA_LIMIT,
)  # fmt: skip

SOURCES = Registry(
    "source format",
    [
        _JSON_FILES,
        replace(
            _FILES,
            name="csv",
            endings=("csv", "tsv"),
            untyped=True,
            sampled=True,
            file_reader="windowpane.scan.csv.files:CsvFiles.of",
            divisible=True,
            by_place=True,
            # Spark reads times in any of its zones, and decimals by locale, so those are left to Spark.
            worker_types=frozenset(
                {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE"}
            ),
            worker_options=_lower(
                ["header", "sep", "delimiter", "quote", "escape", "nullValue", "mode", "enforceSchema"]
            ),
        ),
        replace(
            _FILES,
            name="parquet",
            endings=("parquet",),
            sampled=True,
            file_reader="windowpane.scan.columnar_files:read_parquet",
            divisible=True,
            worker_options=_lower(["mergeSchema"]),  # A declared schema is the merged one.
        ),
        replace(
            _FILES,
            name="arrow",
            endings=("arrow", "arrows", "feather", "ipc"),
            sampled=True,
            read_by_spark=False,
            file_reader="windowpane.scan.columnar_files:read_arrow",
        ),
        replace(_FILES, name="orc", endings=("orc",)),
        replace(_FILES, name="text", plain=True, file_reader="windowpane.scan.text_files:read_batches", divisible=True),
        replace(_FILES, name="avro", endings=("avro",)),
        replace(_FILES, name="xml", endings=("xml",), untyped=True),
        _KAFKA_SOURCE,
        replace(_TABLE, name="delta", extra="delta", table_log="windowpane.remote.delta_log:DeltaLog"),
        replace(
            _TABLE,
            name="iceberg",
            extra="iceberg",
            table_log="windowpane.remote.iceberg_log:IcebergLog",
            needs_path=False,
            client_prefix="catalog.",
            required_options=(("table",),),
        ),
        SourceFormat("rate", columns=_RATE_COLUMNS, timestamp="timestamp", keeps_rows=False),
        SourceFormat("rate-micro-batch", columns=_RATE_COLUMNS, timestamp="timestamp", keeps_rows=False),
    ],
)


def source_format(name: str | None) -> SourceFormat:
    """What is known of a format; the defaults for one that only Spark knows."""
    return SOURCES.find(name) or SourceFormat(name or "")
