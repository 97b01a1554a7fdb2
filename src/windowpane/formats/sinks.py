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
    """What windowpane knows of a sink. The sink's class declares its delivery guarantee."""

    name: str
    sink: Target
    """A subclass of `windowpane.connectors.sinks.Sink`."""
    needs_path: bool = False
    required_options: tuple[str, ...] = ()
    options: frozenset[str] | None = None
    """All that it knows; None: options are passed on, unchecked."""
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
    required_options=("url", "table"),
    options=frozenset({"url", "table", "user", "password"}),
    options_hint="others go into the url: ?sslmode=require",
    patterns=(_POSTGRES_URL,),
    modes=("append", "update"),
    takes_back="rows",
)
_FILES = "windowpane.connectors.files:FileSink"
_SPARK = "windowpane.connectors.sinks:SparkFormatSink"

SINKS = Registry(
    "sink format",
    [
        SinkFormat("console", "windowpane.connectors.console:ConsoleSink"),
        SinkFormat("json", _FILES, needs_path=True, takes_back="files"),
        SinkFormat("csv", _FILES, needs_path=True, takes_back="files"),
        SinkFormat("parquet", _FILES, needs_path=True, takes_back="files"),
        SinkFormat(
            KAFKA,
            "windowpane.connectors.kafka:KafkaSink",
            required_options=("kafka.bootstrap.servers", "topic"),
            deliveries=("at_least_once", "exactly_once"),
        ),
        _POSTGRES,
        SinkFormat("memory", "windowpane.connectors.sinks:MemorySink"),
        SinkFormat("orc", _SPARK, needs_path=True),
        SinkFormat("text", _SPARK, needs_path=True),
        SinkFormat("avro", _SPARK, needs_path=True),
        SinkFormat("xml", _SPARK, needs_path=True),
    ],
)


def sink_format(name: str) -> SinkFormat:
    """What is known of a sink; the defaults for one that only Spark knows."""
    return SINKS.find(name) or SinkFormat(name, _SPARK)
