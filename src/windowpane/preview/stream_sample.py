"""Rows of a configured stream or table, read without Spark as the pipeline would read them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.config import PipelineConfig, Stream, Table
from windowpane.errors import ConfigError
from windowpane.formats import load
from windowpane.plan.pipeline import source_schema
from windowpane.plan.scan_sources import is_recursive, several_topics
from windowpane.preview.file_sample import FileSampler, NeedsSparkError, widened
from windowpane.preview.table_sample import TableSampler, files_of_table
from windowpane.preview.text_records import json_records, why_not_json
from windowpane.remote.access import Access
from windowpane.remote.kafka_sample import sample_messages
from windowpane.remote.source_files import SourceFile, source_files
from windowpane.scan.codec import decode_values
from windowpane.scan.scan import Damage
from windowpane.sql import parse_schema
from windowpane.sql.query import Column
from windowpane.testing.decode import Decoded, arrow_schema

File = TypeVar("File")


@dataclass(frozen=True)
class SamplePart:
    """Rows of one source partition, in order."""

    partition: str
    rows: Decoded


@dataclass(frozen=True)
class StreamSample:
    """The first rows of a stream, or the newest of a stream that begins with the newest."""

    parts: tuple[SamplePart, ...]
    whole: bool
    """These are all the rows that there are now."""
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(part.rows.table.num_rows for part in self.parts)


def sample_stream(
    config: PipelineConfig, name: str, count: int, *, used: Sequence[Column] | None = None, newest: bool | None = None
) -> StreamSample:
    """At most about `count` rows. `used`: the columns that a query reads. A value that does not fit its type spoils a
    record of a JSON file only if the query reads it, as in the pipeline. `newest`: the newest messages of Kafka.
    """
    stream = config.streams[name]
    columns = source_schema(stream) or ()
    with _located(config, f"streams.{name}"):
        if stream.source_format.is_messages:
            return _messages(stream, count, columns, newest=newest)
        if stream.source_format.is_table:
            return _of_table(config, stream, columns, count)
        files = stream_files(config, stream)
        if not files:
            raise ConfigError("NO_ROWS", f"there are no files in `{stream.path}`", "add a file with rows")
        return _of_files(FileSampler(stream, columns, used or columns, _access(config)).read, files, count)


def sample_table(config: PipelineConfig, name: str) -> pa.Table:
    """All rows of a static table."""
    table = config.tables[name]
    columns = source_schema(table)
    with _located(config, f"tables.{name}"):
        if columns is None:
            raise NeedsSparkError(f"table `{name}` declares no schema")
        if table.source_format.is_table:
            sample = _of_table(config, table, columns, 1 << 60)
        elif table.source_format.is_files:
            sampler = FileSampler(table, columns, columns, _access(config))
            sample = _of_files(sampler.read, stream_files(config, table), 1 << 60)
        else:
            raise NeedsSparkError(f"only Spark reads tables of the format {table.format}")
    return pa.concat_tables([part.rows.table for part in sample.parts] or [arrow_schema(columns).empty_table()])


def stream_files(config: PipelineConfig, stream: Stream | Table) -> list[SourceFile]:
    """The files that a stream reads now, oldest first."""
    options = {name.lower(): value for name, value in stream.spark_options.items()}
    for name in ("modifiedafter", "modifiedbefore"):
        if name in options:
            raise NeedsSparkError(f"only Spark selects files with the option {name}")
    return source_files(
        config.resolve(stream.path or ""),
        _access(config),
        recursive=is_recursive(stream),
        name_filter=options.get("pathglobfilter"),
    )


@contextmanager
def _located(config: PipelineConfig, key: str) -> Iterator[None]:
    """Names file and key in errors of a source."""
    try:
        yield
    except ConfigError as error:
        if error.file is None:
            error.file, error.key, error.line = config.file, key, config.line_of(key)
            error.message = config.redact(error.message)
        raise


def _access(config: PipelineConfig) -> Access:
    return Access.of_spark(config.spark.spark_config)


def _of_table(config: PipelineConfig, source: Stream | Table, columns: Sequence[Column], count: int) -> StreamSample:
    access = _access(config)
    return _of_files(TableSampler(columns, access).read, files_of_table(config, source, access), count)


def _of_files(
    read: Callable[[File, int], Iterator[Decoded | Damage]], files: Sequence[File], count: int
) -> StreamSample:
    left, parts, damages, opened = count, [], [], 0
    for file in files:
        if left <= 0:
            break
        opened += 1
        for found in read(file, left):
            if isinstance(found, Damage):
                damages.append(found.detail)
                continue
            rows = found.slice(0, left)
            left -= rows.table.num_rows
            parts.append(SamplePart("0", rows))
            if left <= 0:
                break
    if damages and not parts:
        raise ConfigError("FILE_UNREADABLE", damages[0], "mend it or take it away")
    whole = left > 0 and opened == len(files)
    return StreamSample(tuple(parts), whole, tuple(f"unreadable: {detail}" for detail in damages))


def _messages(stream: Stream, count: int, columns: Sequence[Column], *, newest: bool | None) -> StreamSample:
    options = stream.spark_options
    by_name = {name.lower(): value for name, value in options.items()}
    notes: tuple[str, ...] = ()
    if newest is None:
        starts = by_name.get("startingoffsets", "latest").lower()
        newest = starts != "earliest"
        if newest:
            notes = ("the newest messages of the topic, since the stream does not start at the earliest offsets",)
    found, whole = sample_messages(options, _topics(by_name), count, newest=newest)
    partitions = found.column("partition").cast(pa.string())
    if several_topics(stream):
        partitions = pc.binary_join_element_wise(found.column("topic"), partitions, "-")
    parts = []
    for partition in pc.unique(partitions).to_pylist():
        messages = found.filter(pc.equal(partitions, partition)).combine_chunks()
        parts.append(SamplePart(partition, _decoded_messages(stream, messages, columns)))
    return StreamSample(tuple(parts), whole, notes)


def _topics(options: dict[str, str]) -> list[str] | re.Pattern[str]:
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",")]
    if "subscribepattern" in options:
        return re.compile(options["subscribepattern"])
    try:
        return list(json.loads(options.get("assign", "{}")))
    except ValueError:
        raise ConfigError("BAD_VALUE", "the option assign is not JSON: topics with lists of partitions") from None


def _decoded_messages(stream: Stream, messages: pa.Table, columns: Sequence[Column]) -> Decoded:
    """The columns of values, and those of the record beside them."""
    stamps = messages.column("timestamp").combine_chunks()
    texts = _texts(messages.column("value"))
    if stream.codec is None:
        table = widened(messages, columns)
        return Decoded(table, texts, [None] * table.num_rows, stamps)
    declared = parse_schema(stream.schema_ or "")
    odd = next((column for column in declared if column.type not in stream.codec.worker_types), None)
    if odd is not None and stream.codec.name == "json":
        why = why_not_json(declared)
        if why is not None:
            raise NeedsSparkError(why)
        found = json_records(texts.to_pylist(), declared)
        table, problems = found.table, found.problems
    elif odd is not None:
        raise NeedsSparkError(f"only Spark reads `{odd.name}`, a {odd.type}, from {stream.codec.title}")
    else:
        codec = load(stream.codec.workers)(dict(stream.decoding_options))
        values = messages.column("value").combine_chunks()
        decoded = decode_values(codec, values, arrow_schema(declared), stream.max_record_bytes)
        table, problems = pa.Table.from_batches([decoded.columns]), decoded.bad.to_pylist()
    beside = messages.set_column(0, "key", _texts(messages.column("key"))).drop_columns(["value"])
    for column in columns:
        if column.name not in table.column_names and column.name in beside.column_names:
            table = table.append_column(column.name, beside.column(column.name))
    return Decoded(widened(table, columns), texts, problems, stamps)


def _texts(values: pa.ChunkedArray) -> pa.Array:
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
    return pa.array(texts, pa.string())
