"""How values of Spark are sent to PostgreSQL: as CSV without loss, with the SQL that restores each value there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from windowpane.connectors.sinks import WHOLE_JSON_SQL

Texts = Callable[[str], str]
"""From the SQL text of a value to the SQL text of another."""

_NO_NUL = "\\uFFFD"
"""Replaces the character NUL, which PostgreSQL's texts cannot hold."""
_EARLIEST_US, _EARLIEST_DAY = -210_866_803_200_000_000, -2_440_588
"""PostgreSQL's calendar begins in 4713 BC; earlier times become -infinity."""


@dataclass(frozen=True)
class PostgresColumn:
    """`sent`: Spark SQL for the text in the CSV. `staged`: its type there. `read`: SQL that restores the value."""

    name: str
    type: str
    sent: str
    staged: str
    read: Texts


def postgres_column(field: StructField) -> PostgresColumn:
    """How a column of this type is sent."""
    own = f"`{field.name.replace('`', '``')}`"
    for kinds, (type_name, sent, staged, read) in _KINDS.items():
        if isinstance(field.dataType, kinds):
            return PostgresColumn(field.name, _named(type_name, field.dataType), sent(own), staged or type_name, read)
    return PostgresColumn(field.name, "text", f"CAST({own} AS STRING)", "text", _same)


def json_column(name: str, text: str) -> PostgresColumn:
    """A column of JSON texts as `jsonb`."""
    return PostgresColumn(name, "jsonb", _clean_json(text), "text", "({}::jsonb)".format)


def _named(type_name: str, kind: DataType) -> str:
    return f"numeric({kind.precision},{kind.scale})" if isinstance(kind, DecimalType) else type_name


def _same(text: str) -> str:
    return text


def _clean_text(text: str) -> str:
    return f"replace({text}, '\\u0000', '{_NO_NUL}')"


def _clean_json(text: str) -> str:
    """JSON without the escape of NUL. An escaped backslash followed by `u0000` is not that escape."""
    return rf"regexp_replace({text}, r'(?<!\\)((?:\\\\)*)\\u0000', r'$1\\ufffd')"


def _as_json(text: str) -> str:
    return _clean_json(f"to_json({text}, {WHOLE_JSON_SQL})")


def _since_epoch(text: str) -> str:
    return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {text})"


def _instant(kind: str) -> Texts:
    """Adds seconds and microseconds separately, since PostgreSQL multiplies intervals in floating point."""
    return lambda text: (
        f"(CASE WHEN {text} < {_EARLIEST_US} THEN '-infinity'::{kind} ELSE {kind} '1970-01-01 00:00:00+00'"
        f" + {text} / 1000000 * interval '1 second' + {text} % 1000000 * interval '1 microsecond' END)"
    )


def _day(text: str) -> str:
    return f"(CASE WHEN {text} < {_EARLIEST_DAY} THEN '-infinity'::date ELSE date '1970-01-01' + {text} END)"


_KINDS: Mapping[tuple[type[DataType], ...], tuple[str, Texts, str | None, Texts]] = {
    (BooleanType,): ("boolean", _same, None, _same),
    (ByteType, ShortType): ("smallint", _same, None, _same),
    (IntegerType,): ("integer", _same, None, _same),
    (LongType,): ("bigint", _same, None, _same),
    (FloatType,): ("real", _same, None, _same),
    (DoubleType,): ("double precision", _same, None, _same),
    (DecimalType,): ("numeric", _same, None, _same),
    (StringType, CharType, VarcharType): ("text", _clean_text, None, _same),
    (BinaryType,): ("bytea", "hex({})".format, "text", "decode({}, 'hex')".format),
    (DateType,): ("date", "unix_date({})".format, "integer", _day),
    (TimestampType,): ("timestamptz", "unix_micros({})".format, "bigint", _instant("timestamptz")),
    (TimestampNTZType,): ("timestamp", _since_epoch, "bigint", _instant("timestamp")),
    (ArrayType, MapType, StructType, VariantType): ("jsonb", _as_json, "text", "({}::jsonb)".format),
}
"""By Spark's type: PostgreSQL's type, and `sent`, `staged` (None: the same type) and `read` of PostgresColumn."""
