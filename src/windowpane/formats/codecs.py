"""Codecs: how the values of messages become columns."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.formats.registry import Registry, Target


@dataclass(frozen=True)
class CodecFormat:
    """A codec that a stream selects with `value_format`, and with `key_format` for keys."""

    name: str
    workers: Target
    """A class that implements `windowpane.scan.codec.Codec`; an instance is sent to the workers."""
    worker_types: frozenset[str]
    """The Spark types of columns that workers decode, without sizes: `DECIMAL`. Other types are left to Spark."""
    worker_options: frozenset[str] = frozenset()
    """Options, in lower case, that workers understand. A stream with others is left to Spark."""
    required_options: tuple[tuple[str, ...], ...] = ()
    """Of each group, a stream needs one."""
    file_options: tuple[str, ...] = ()
    """Options that name a file, relative to pipeline.toml."""
    for_keys: bool = True
    """Keys of messages can have it too."""
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
_TYPES = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP"}
)
AVRO = CodecFormat(
    "avro",
    workers="windowpane.scan.avro:AvroCodec",
    worker_types=_TYPES,
    worker_options=frozenset({"schema_file", "schema_registry"}),
    spark="windowpane.connectors.worker_values:avro",
    required_options=(("schema_file", "schema_registry"),),
    file_options=("schema_file",),
)
PROTOBUF = CodecFormat(
    "protobuf",
    workers="windowpane.scan.protobuf:ProtobufCodec",
    worker_types=_TYPES,
    worker_options=frozenset({"schema_file", "message", "schema_registry"}),
    spark="windowpane.connectors.worker_values:protobuf",
    required_options=(("schema_file", "schema_registry"),),
    file_options=("schema_file",),
)
CSV = CodecFormat(
    "csv",
    workers="windowpane.scan.csv_values:CsvCodec",
    worker_types=_TYPES - {"TIMESTAMP"},
    worker_options=frozenset({"sep", "nullvalue"}),
    spark="windowpane.connectors.worker_values:csv",
)
STRING = CodecFormat(
    "string",
    workers="windowpane.scan.string_values:StringCodec",
    worker_types=frozenset({"STRING"}),
    spark="windowpane.connectors.worker_values:string",
)
DEBEZIUM_JSON = CodecFormat(
    "debezium-json",
    workers="windowpane.scan.debezium:DebeziumJsonCodec",
    worker_types=JSON.worker_types,
    for_keys=False,
    spark="windowpane.connectors.worker_values:debezium_json",
)
CODECS = Registry("codec", [JSON, AVRO, PROTOBUF, CSV, STRING, DEBEZIUM_JSON])


def key_codecs() -> list[str]:
    """The names of codecs for keys."""
    return [name for name in CODECS.names if (found := CODECS.find(name)) is not None and found.for_keys]
