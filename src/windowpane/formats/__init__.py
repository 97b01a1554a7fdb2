"""The formats that windowpane knows: what a source, a codec of message values and a sink can do, in one place.

Everything else asks these registries. They hold plain values, so that a configuration is checked without Spark; code
is named as `module:attribute` and imported when it is needed.
"""

from windowpane.formats.codecs import CODECS, JSON, CodecFormat, key_codecs
from windowpane.formats.registry import Registry, Target, load
from windowpane.formats.sinks import SINKS, OptionPattern, SinkFormat, sink_format
from windowpane.formats.sources import (
    KAFKA,
    KAFKA_CONNECTOR,
    SOURCES,
    Limit,
    SourceFormat,
    source_format,
)

__all__ = [
    "CODECS",
    "JSON",
    "KAFKA",
    "KAFKA_CONNECTOR",
    "SINKS",
    "SOURCES",
    "CodecFormat",
    "Limit",
    "OptionPattern",
    "Registry",
    "SinkFormat",
    "SourceFormat",
    "Target",
    "key_codecs",
    "load",
    "sink_format",
    "source_format",
]
