"""Text of JSON to columns by Spark, the same for lines of files and for values of Kafka records.

A record that is no JSON object, is not UTF-8, has a field of another type, is longer than `max_record_bytes`, or is not
there at all, is kept as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from windowpane.config import Stream
from windowpane.core import columns as c
from windowpane.sql import parse_schema

_PARSED, _LINE = "_parsed", "_line"
_OTHER_READER = {"multiline", "encoding", "charset"}
_NOT_BLANK = r"[^ \t\n\x0B\f\r]"
_HEAD_BYTES, _HEAD_CHARACTERS = 400, 100


def is_read_by_line(stream: Stream) -> bool:
    """Whether each line of the stream's files is a record: not with options that only Spark's JSON reader has."""
    options = {option.lower() for option in stream.options}
    return stream.format == "json" and bool(stream.schema_) and not options & _OTHER_READER


def load_lines(reader: DataStreamReader, stream: Stream, path: str | None) -> DataFrame:
    """The lines of files in the column `_line`, and columns that folders name in their declared types."""
    found = reader.format("text").load(path)
    types = {column.name.lower(): column.type for column in parse_schema(stream.schema_ or "")}
    named = [name for name in found.columns if name != "value"]
    if named:
        folders = [f"`{name}` {types.get(name.lower(), 'STRING')}" for name in named]
        found = reader.schema(", ".join(["value STRING", *folders])).load(path)
    return found.withColumnRenamed("value", _LINE)


def decode_lines(lines: DataFrame, stream: Stream, beside: Sequence[str]) -> DataFrame:
    """The declared columns of each line that is not blank, and those `beside`. A column that a folder names has its
    value from there.
    """
    given = [name for name in lines.columns if name != _LINE and name not in beside]
    return decode(lines.where(F.col(_LINE).rlike(_NOT_BLANK)), stream, _LINE, beside, given)


def decode(
    frame: DataFrame, stream: Stream, column: str, beside: Sequence[str], given: Sequence[str] = ()
) -> DataFrame:
    """The declared columns of JSON in `column`, CORRUPT, and the expressions `beside` them.

    Declared columns that the frame has itself are `given`.
    """
    schema = f"{stream.schema_}, `{c.CORRUPT}` STRING"
    known = {name: text for name, text in stream.spark_options.items() if not name.lower().startswith("kafka.")}
    options = {"allowSingleQuotes": "false"} | known | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": c.CORRUPT}
    text = F.col(column).cast("string")
    readable = F.is_valid_utf8(text) & (F.octet_length(text) <= stream.max_record_bytes)
    parsed = frame.withColumn(_PARSED, F.when(readable, F.from_json(text, schema, options)))
    head = f"CAST(substring(CAST({column} AS BINARY), 1, {_HEAD_BYTES}) AS STRING)"
    start = f"longer than max_record_bytes ({stream.max_record_bytes}): "
    long = f"concat('{start}', left(make_valid_utf8({head}), {_HEAD_CHARACTERS}))"
    unread = f"coalesce(make_valid_utf8(CAST({column} AS STRING)), '')"
    cases = f"WHEN octet_length({column}) > {stream.max_record_bytes} THEN {long} WHEN {_PARSED} IS NULL THEN {unread}"
    corrupt = f"CASE {cases} ELSE {_PARSED}.`{c.CORRUPT}` END AS `{c.CORRUPT}`"
    own = {name.lower() for name in given}
    declared = [field.name for field in parse_schema(stream.schema_ or "")]
    columns = [f"`{name}`" if name.lower() in own else f"{_PARSED}.`{name}` AS `{name}`" for name in declared]
    return parsed.selectExpr(*columns, *beside, corrupt)
