"""Decoding in Spark: lines of files and values of messages to columns, by the stream's codec.

A record that cannot be decoded, is longer than `max_record_bytes`, or is absent, is kept as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windowpane.config import Stream
from windowpane.connectors.history import AnyReader
from windowpane.core import columns as c
from windowpane.errors import ConfigError
from windowpane.formats import CodecFormat, load
from windowpane.scan.codec import KEY_TEXT
from windowpane.sql import parse_schema

SparkDecoder: TypeAlias = Callable[[Column, str, dict[str, str]], Column]
"""From a binary or string column, a schema as DDL and the stream's decoding options to a struct of the schema.

NULL stands for a record that cannot be decoded at all. The schema's last column is CORRUPT: the decoder fills it with
the text of a record that can be decoded in part. Registered as `windowpane.formats.CodecFormat.spark`.
"""
_PARSED, _LINE, _PARSED_KEY, _BAD_KEY = "_parsed", "_line", "_parsed_key", "_bad_key"
_NOT_BLANK = r"[^ \t\n\x0B\f\r]"
_HEAD_BYTES, _HEAD_CHARACTERS = 400, 100


def is_read_by_line(stream: Stream) -> bool:
    """Whether each line of the stream's files is a record that the codec decodes."""
    options = {option.lower() for option in stream.options}
    source = stream.source_format
    return source.is_files and stream.codec is not None and not options & source.whole_file_options


def load_lines(reader: AnyReader, stream: Stream, path: str | None) -> DataFrame:
    """The lines of files in the column `_line`, and the columns that folders name, in their declared types."""
    found = reader.format("text").load(path)
    types = {column.name.lower(): column.type for column in parse_schema(stream.schema_ or "")}
    named = [name for name in found.columns if name != "value"]
    if named:
        folders = [f"`{name}` {types.get(name.lower(), 'STRING')}" for name in named]
        found = reader.schema(", ".join(["value STRING", *folders])).load(path)
    return found.withColumnRenamed("value", _LINE)


def decode_lines(lines: DataFrame, stream: Stream, beside: Sequence[str]) -> DataFrame:
    """The declared columns of each line that is not blank, and those `beside`. Folder names override lines."""
    given = [name for name in lines.columns if name != _LINE and name not in beside]
    return decode(lines.where(F.col(_LINE).rlike(_NOT_BLANK)), stream, _LINE, beside, given)


def decode(
    frame: DataFrame, stream: Stream, column: str, beside: Sequence[str], given: Sequence[str] = ()
) -> DataFrame:
    """The declared columns, decoded from `column`, then CORRUPT, and the expressions `beside` them.

    `given`: declared columns that the frame already has.
    """
    schema = f"{stream.schema_}, `{c.CORRUPT}` STRING"
    short = F.octet_length(F.col(column)) <= stream.max_record_bytes
    parsed = frame.withColumn(
        _PARSED, F.when(short, _decoder(stream, stream.codec)(F.col(column), schema, stream.decoding_options))
    )
    own = {name.lower() for name in given}
    declared = [field.name for field in parse_schema(stream.schema_ or "")]
    columns = [f"`{name}`" if name.lower() in own else f"{_PARSED}.`{name}` AS `{name}`" for name in declared]
    return parsed.selectExpr(*columns, *beside, _corrupt(column, stream.max_record_bytes))


def decode_with_key(frame: DataFrame, stream: Stream, value: str, key: str, beside: Sequence[str]) -> DataFrame:
    """As `decode`, with the declared columns of keys behind those of values. A record without a key is not bad."""
    schema = f"{stream.key_schema}, `{c.CORRUPT}` STRING"
    short = F.octet_length(F.col(key)) <= stream.max_record_bytes
    parsed = _decoder(stream, stream.key_codec)(F.col(key), schema, stream.key_options)
    names = [field.name for field in parse_schema(stream.key_schema or "")]
    keyed = frame.withColumn(_PARSED_KEY, F.when(short, parsed))
    columns = [f"{_PARSED_KEY}.`{name}` AS `{name}`" for name in names]
    corrupt = _corrupt(key, stream.max_record_bytes, _PARSED_KEY).removesuffix(f" AS `{c.CORRUPT}`")
    bad = f"CASE WHEN {key} IS NOT NULL THEN concat('{KEY_TEXT}', {corrupt}) END AS {_BAD_KEY}"
    found = decode(keyed, stream, value, [*columns, bad, *beside])
    whole = F.coalesce(F.col(f"`{c.CORRUPT}`"), F.col(_BAD_KEY))
    return found.withColumn(c.CORRUPT, whole).drop(_BAD_KEY)


def _decoder(stream: Stream, codec: CodecFormat | None) -> SparkDecoder:
    if codec is None or codec.spark is None:
        what = "the values" if codec is None else f"{codec.title} values"
        raise ConfigError("SCAN_IMPOSSIBLE", f"Spark does not decode {what} of format {stream.format}")
    decoder: SparkDecoder = load(codec.spark)
    return decoder


def _corrupt(column: str, max_bytes: int, parsed: str = _PARSED) -> str:
    """The text of a record that is too long, or that the decoder refuses; NULL for a good one."""
    head = f"CAST(substring(CAST({column} AS BINARY), 1, {_HEAD_BYTES}) AS STRING)"
    start = f"longer than max_record_bytes ({max_bytes}): "
    long = f"concat('{start}', left(make_valid_utf8({head}), {_HEAD_CHARACTERS}))"
    unread = f"coalesce(make_valid_utf8(CAST({column} AS STRING)), '')"
    cases = f"WHEN octet_length({column}) > {max_bytes} THEN {long} WHEN {parsed} IS NULL THEN {unread}"
    return f"CASE {cases} ELSE {parsed}.`{c.CORRUPT}` END AS `{c.CORRUPT}`"
