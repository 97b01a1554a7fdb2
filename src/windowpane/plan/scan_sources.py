"""Which sources the columnar scan can read, and which of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windowpane.config import Stream, Table
from windowpane.formats import CodecFormat, SourceFormat
from windowpane.remote.hdfs import has_hdfs_native, is_hdfs
from windowpane.remote.input_file import is_remote
from windowpane.remote.kafka import UntranslatableError, client_settings, has_client
from windowpane.remote.objects import has_obstore, is_object_store, scheme_of
from windowpane.scan.csv.dialect import dialect_of
from windowpane.scan.files import folders_of_path
from windowpane.sql import parse_schema, with_record_columns
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow

_COLUMN_TYPES = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "DECIMAL",
})  # fmt: skip
"""Types of columns that workers read. A codec may support fewer."""


class Refused(Exception):  # noqa: N818  # not an error: a reason
    """The reason why the columnar scan is not possible."""


@dataclass(frozen=True)
class ScanColumns:
    """Columns that are read from files or decoded from values, and further columns of messages."""

    read: tuple[Column, ...]
    key: tuple[Column, ...] = ()
    """Columns that are decoded from keys of messages."""
    own: tuple[Column, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in (*self.read, *self.key, *self.own)}


def scan_columns(stream: Stream, used: Sequence[Column] | None) -> ScanColumns:
    """The columns that a scan reads. `used`: those of the plan, None if unknown. Refused if Spark has to read."""
    if not stream.source_format.read_by_workers:
        raise Refused(f"format {stream.format} is read by Spark")
    if used is None or stream.schema_ is None:
        raise Refused("the stream declares no schema")
    if stream.codec is not None:
        _check_options(stream.decoding_options, stream.codec)
    if stream.key_codec is not None:
        _check_options(stream.key_options, stream.key_codec)
    if stream.codec is None and not stream.source_format.is_messages:
        _check_options(stream.decoding_options, stream.source_format)
    if stream.source_format.by_place:
        _check_dialect(stream)
    if stream.source_format.plain:
        _check_lines(stream)
    return _of_messages(stream, used) if stream.source_format.is_messages else _of_files(stream, used)


def why_spark_fetches(stream: Stream) -> str | None:
    """Why workers do not fetch the messages of a Kafka stream with librdkafka; None if they do."""
    if not has_client():
        return "workers fetch with the package confluent-kafka, which is not installed"
    try:
        client_settings(stream.spark_options, "consumer")
    except UntranslatableError as unknown:
        return str(unknown)
    return None


def several_topics(stream: Stream) -> bool:
    """Whether records of a Kafka stream may come from more than one topic."""
    topics = stream.spark_options.get("subscribe", "*")
    return "," in topics or topics == "*"


def is_recursive(source: Stream | Table) -> bool:
    """Whether files of all folders below are read, whose names then mean nothing."""
    given = {name.lower(): value for name, value in source.spark_options.items()}
    return given.get("recursivefilelookup", "false").lower() == "true"


def _check_options(options: Iterable[str], known: CodecFormat | SourceFormat) -> None:
    unknown = sorted(name for name in options if name.lower() not in known.worker_options)
    if unknown:
        raise Refused(f"option {unknown[0]} is for Spark's reader")


def _check_dialect(stream: Stream) -> None:
    try:
        dialect_of(stream.decoding_options)
    except ValueError as unknown:
        raise Refused(str(unknown)) from unknown


def _check_lines(stream: Stream) -> None:
    """The text is the first column, and the others are names of folders."""
    first, *others = parse_schema(stream.schema_ or "")
    if first.type != "STRING" or (
        others and folders_of_path(stream.path or "", recursive=is_recursive(stream)) is None
    ):
        raise Refused("text files have one STRING column")


def _of_files(stream: Stream, used: Sequence[Column]) -> ScanColumns:
    path = stream.path or ""
    scheme = scheme_of(path)
    if scheme not in ("", "file") and not is_remote(path):
        raise Refused(f"workers do not open {scheme}:// themselves")
    if is_object_store(path) and not has_obstore():
        raise Refused("workers open objects with the package obstore, which is not installed")
    if is_hdfs(path) and not has_hdfs_native():
        raise Refused("workers open files of HDFS with the package hdfs-native, which is not installed")
    if stream.source_format.plain:
        text = parse_schema(stream.schema_ or "")[0]
        used = (text, *(column for column in used if column.name != text.name))
    for column in used:
        _check(column, stream.codec)
        _check_type(column, stream.source_format)
    return ScanColumns(tuple(used))


def _of_messages(stream: Stream, used: Sequence[Column]) -> ScanColumns:
    """All declared columns are read: a value is bad also because of a field that the query does not use."""
    of_value = parse_schema(stream.schema_ or "")
    of_key = parse_schema(stream.key_schema or "") if stream.key_codec is not None else ()
    for column in of_value:
        _check(column, stream.codec)
    for column in of_key:
        _check(column, stream.key_codec)
    names, declared = {column.name for column in used}, (*of_value, *of_key)
    beside = with_record_columns(declared, stream.source_format.record_columns)[len(declared) :]
    return ScanColumns(of_value, of_key, tuple(each for each in beside if each.name in names))


def _check_type(column: Column, source: SourceFormat) -> None:
    if source.worker_types is not None and column.type.partition("(")[0] not in source.worker_types:
        raise Refused(f"column `{column.name}` is {column.type}, and read from {source.name.upper()} by Spark")


def _check(column: Column, codec: CodecFormat | None) -> None:
    kind = column.type.partition("(")[0]
    if to_arrow(column.type) is None or kind not in _COLUMN_TYPES:
        raise Refused(f"column `{column.name}` is {column.type}")
    if codec is not None and kind not in codec.worker_types:
        raise Refused(f"column `{column.name}` is {column.type}, and read from {codec.title} by Spark")
    if "." in column.name:
        raise Refused(f"column `{column.name}` has a dot in its name")
