"""Codecs: how the values of messages become columns."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.formats.registry import Registry, Target


@dataclass(frozen=True)
class CodecFormat:
    """A codec that a stream selects with `value_format`."""

    name: str
    workers: Target
    """A class that implements `windowpane.scan.codec.Codec`; an instance is sent to the workers."""
    worker_types: frozenset[str]
    """The Spark types of columns that workers decode, without sizes: `DECIMAL`. Other types are left to Spark."""
    worker_options: frozenset[str] = frozenset()
    """Options, in lower case, that workers understand. A stream with others is left to Spark."""
    spark: Target | None = None
    """A function that decodes with Spark: see `windowpane.connectors.decoding`. None: only workers decode."""

    @property
    def title(self) -> str:
        """The name in messages."""
        return self.name.upper()


JSON = CodecFormat(
    "json",
    workers="windowpane.scan.json.codec:JsonCodec",
    # Spark lets numbers that are too large for the smaller integers overflow, so those are left to Spark.
    worker_types=frozenset({"BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING"}),
    spark="windowpane.connectors.json_values:from_json",
)
CODECS = Registry("codec", [JSON])
