"""Formats of sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windowpane.formats.registry import Registry, Target
from windowpane.formats.sources import KAFKA


@dataclass(frozen=True)
class OptionPattern:
    """What an option has to look like."""

    option: str
    pattern: str
    code: str
    what: str
    """The message: the option is not this."""
    hint: str


@dataclass(frozen=True)
class SinkFormat:
    """What windowpane knows of a sink. Its class declares the delivery guarantee, and a test compares both."""

    name: str
    sink: Target
    """A subclass of `windowpane.connectors.sinks.Sink`."""
    about: str = "whatever Spark writes by this name"
    """What it writes to, for `windowpane connectors`."""
    exactly_once: bool = False
    """Whether a batch that is written again leaves one copy."""
    extra: str | None = None
    """What to install with it: `windowpane[extra]`."""
    needs_path: bool = False
    required_options: tuple[str, ...] = ()
    options: frozenset[str] | None = None
    """All that it knows; None: options are passed on, unchecked."""
    option_prefixes: tuple[str, ...] = ()
    """How further options begin that it knows."""
    options_hint: str = ""
    patterns: tuple[OptionPattern, ...] = ()
    modes: tuple[Literal["append", "update"], ...] = ("append",)
    deliveries: tuple[Literal["exactly_once", "at_least_once"], ...] = ()
    """The guarantees that a pipeline can choose from, the default first. Empty: there is only one."""
    takes_back: Literal["files", "rows"] | None = None
    """What a batch has written can be found and removed again, as files or as rows."""


_POSTGRES_URL = OptionPattern(
    "url",
    r"(jdbc:)?postgres(ql)?://|\s*\w+\s*=",
    code="BAD_URL",
    what="a PostgreSQL URL",
    hint='write it like postgresql://user@host:5432/database, and the password as password = "${NAME}"',
)
_POSTGRES = SinkFormat(
    "postgres",
    "windowpane.connectors.postgres.sink:PostgresSink",
    "a table of PostgreSQL",
    exactly_once=True,
    required_options=("url", "table"),
    options=frozenset({"url", "table", "user", "password"}),
    options_hint="others go into the url: ?sslmode=require",
    patterns=(_POSTGRES_URL,),
    modes=("append", "update"),
    takes_back="rows",
)
_FILES = "windowpane.connectors.files:FileSink"
_SPARK = "windowpane.connectors.sinks:SparkFormatSink"


def _files(name: str, about: str) -> SinkFormat:
    return SinkFormat(name, _FILES, about, exactly_once=True, needs_path=True, takes_back="files")


def _number(option: str) -> OptionPattern:
    return OptionPattern(
        option, r"[1-9]\d{0,8}$", code="BAD_VALUE", what="a positive whole number", hint="for example 100"
    )


_DELTA = SinkFormat(
    "delta",
    "windowpane.connectors.table_sinks.delta:DeltaSink",
    "a Delta Lake table",
    exactly_once=True,
    extra="delta",
    needs_path=True,
    options=frozenset({"path", "partition_by", "compact_every"}),
    options_hint="credentials of object stores come from [spark]",
    patterns=(_number("compact_every"),),
    modes=("append", "update"),
    takes_back="rows",
)
_ICEBERG = SinkFormat(
    "iceberg",
    "windowpane.connectors.table_sinks.iceberg:IcebergSink",
    "an Iceberg table of a catalog",
    exactly_once=True,
    extra="iceberg",
    required_options=("table", "catalog.type"),
    options=frozenset({"table", "partition_by", "catalog.type", "catalog.uri", "catalog.warehouse", "catalog.name"}),
    option_prefixes=("catalog.",),
    options_hint="every option of the catalog begins with catalog.",
    patterns=(
        OptionPattern(
            "table", r"\w+(\.\w+)+$", code="BAD_VALUE", what="a namespace and a name", hint="write it like shop.hot"
        ),
    ),
    modes=("append", "update"),
    takes_back="rows",
)
_DUCKDB = SinkFormat(
    "duckdb",
    "windowpane.connectors.table_sinks.duckdb_file:DuckDbSink",
    "a table in a DuckDB file",
    exactly_once=True,
    needs_path=True,
    required_options=("table",),
    options=frozenset({"path", "table"}),
    modes=("append", "update"),
    takes_back="rows",
)
_REDIS = SinkFormat(
    "redis",
    "windowpane.connectors.redis_keys:RedisSink",
    "keys of Redis for results, a stream for other rows",
    exactly_once=True,
    extra="redis",
    required_options=("url", "key"),
    options=frozenset({"url", "key", "password", "ttl_seconds", "max_length"}),
    patterns=(
        OptionPattern(
            "url", r"(rediss?|unix)://", code="BAD_URL", what="a Redis URL", hint="write it like redis://host:6379/0"
        ),
        _number("ttl_seconds"),
        _number("max_length"),
    ),
)
_WEBHOOK = SinkFormat(
    "webhook",
    "windowpane.connectors.webhook:WebhookSink",
    "POST requests with JSON arrays",
    required_options=("url",),
    options=frozenset({"url", "rows_per_request", "timeout_seconds"}),
    option_prefixes=("header.",),
    options_hint="headers begin with header.",
    patterns=(
        OptionPattern(
            "url", r"https?://", code="BAD_URL", what="an HTTP address", hint="write it like https://host/path"
        ),
        _number("rows_per_request"),
        _number("timeout_seconds"),
    ),
)

SINKS = Registry(
    "sink format",
    [
        SinkFormat("console", "windowpane.connectors.console:ConsoleSink", "tables in the terminal"),
        _files("json", "files with a JSON record per line"),
        _files("csv", "CSV files"),
        _files("parquet", "Parquet files"),
        SinkFormat(
            KAFKA,
            "windowpane.connectors.kafka:KafkaSink",
            "messages of a Kafka topic",
            required_options=("kafka.bootstrap.servers", "topic"),
            deliveries=("at_least_once", "exactly_once"),
        ),
        _POSTGRES,
        _DELTA,
        _ICEBERG,
        _DUCKDB,
        _REDIS,
        _WEBHOOK,
        SinkFormat(
            "memory", "windowpane.connectors.sinks:MemorySink", "rows in this Python process", exactly_once=True
        ),
        SinkFormat("orc", _SPARK, "ORC files", needs_path=True),
        SinkFormat("text", _SPARK, "text files of one column", needs_path=True),
        SinkFormat("avro", _SPARK, "Avro files", needs_path=True),
        SinkFormat("xml", _SPARK, "XML files", needs_path=True),
    ],
)


def sink_format(name: str) -> SinkFormat:
    """What is known of a sink; the defaults for one that only Spark knows."""
    return SINKS.find(name) or SinkFormat(name, _SPARK)
