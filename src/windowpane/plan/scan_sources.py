"""Which sources the columnar scan can read: files of some formats, and the values of Kafka records that are JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windowpane.config import Stream
from windowpane.sql import KAFKA, parse_schema, with_kafka_metadata
from windowpane.sql.query import Column
from windowpane.sql.types import to_arrow

ARROW, JSON = "arrow", "json"
FORMATS = ("parquet", ARROW, JSON, KAFKA)
"""Formats that workers read by themselves."""
_JSON_READABLE = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING")
"""Spark lets a number that is too large for the smaller integers overflow, so those are left to it."""
_READABLE = (*_JSON_READABLE, "TINYINT", "SMALLINT", "DATE", "TIMESTAMP", "DECIMAL")
_FILE_OPTIONS = {
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "cleanSource",
    "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup", "modifiedAfter", "modifiedBefore",
}  # fmt: skip
"""Options that say which files are read, not how."""
_KAFKA_OPTIONS = {
    "subscribe", "subscribePattern", "assign", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "groupIdPrefix", "includeHeaders",
}  # fmt: skip
"""Options that say which records are read; beside them those of the client, which start with `kafka`."""


class Refused(Exception):  # noqa: N818  # not an error: a reason
    """Why there is no scan."""


@dataclass(frozen=True)
class ScanColumns:
    """Of a source: what is read from its files, or from the values of its records, and what records have beside it."""

    read: tuple[Column, ...]
    own: tuple[Column, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        return {column.name: column.type for column in (*self.read, *self.own)}


def scan_columns(stream: Stream, used: Sequence[Column] | None) -> ScanColumns:
    """The columns of a scan, of which the plan uses `used` (None: nobody knows); Refused where Spark has to read."""
    if stream.format not in FORMATS:
        raise Refused(f"format {stream.format} is read by Spark")
    if used is None or stream.schema_ is None:
        raise Refused("the stream declares no schema")
    if stream.format == KAFKA:
        return _of_records(stream, used)
    return _of_files(stream, used)


def several_topics(stream: Stream) -> bool:
    """Whether records of a Kafka stream may come from more than one topic."""
    topics = stream.spark_options.get("subscribe", "*")
    return "," in topics or topics == "*"


def _of_files(stream: Stream, used: Sequence[Column]) -> ScanColumns:
    if "://" in (stream.path or "") and not (stream.path or "").startswith("file://"):
        raise Refused("its files are not on a file system that workers see")
    if stream.format == JSON and (special := sorted(set(stream.spark_options) - _FILE_OPTIONS)):
        raise Refused(f"option {special[0]} is for Spark's reader")
    for column in used:
        _check(column, json=stream.format == JSON)
    return ScanColumns(tuple(used))


def _of_records(stream: Stream, used: Sequence[Column]) -> ScanColumns:
    """All that is declared is read: a record is bad also by a field that the query does not use."""
    known = {name.lower() for name in _KAFKA_OPTIONS}
    special = [
        name for name in stream.spark_options if not name.lower().startswith("kafka") and name.lower() not in known
    ]
    if special:
        raise Refused(f"option {min(special)} is for Spark's reader")
    declared = parse_schema(stream.schema_ or "")
    for column in declared:
        _check(column, json=True)
    names = {column.name for column in used}
    return ScanColumns(
        declared, tuple(each for each in with_kafka_metadata(declared)[len(declared) :] if each.name in names)
    )


def _check(column: Column, *, json: bool) -> None:
    if to_arrow(column.type) is None or column.type.partition("(")[0] not in _READABLE:
        raise Refused(f"column `{column.name}` is {column.type}")
    if json and column.type not in _JSON_READABLE:
        raise Refused(f"column `{column.name}` is {column.type}, and read from JSON by Spark")
    if "." in column.name:
        raise Refused(f"column `{column.name}` has a dot in its name")
