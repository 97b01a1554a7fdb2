"""The Avro codec: values of one schema, or with the id of their schema in a registry in the first five bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.errors import ConfigError
from windowpane.remote.optional_packages import optional_module
from windowpane.scan.bisecting import as_base64, decode_by_parts
from windowpane.scan.codec_options import checked_options, read_schema_file
from windowpane.scan.decoded import Decoded, good, nulls
from windowpane.scan.schema_registry import PREFIX_BYTES, decode_by_prefix, fetch_schema, schema_id

SCHEMA_FILE, REGISTRY = "schema_file", "schema_registry"
_UNSUPPORTED = ("decimal", "duration", "uuid")
"""Logical types on which the parser fails."""


@dataclass(frozen=True)
class AvroCodec:
    """The declared columns of a stream are the reader's schema: fields are found by name, others are NULL."""

    options: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    registry: str = ""

    def __post_init__(self) -> None:
        given = checked_options("avro", self.options, (SCHEMA_FILE, REGISTRY))
        _parser()
        if len(given) != 1:
            what = "value_format avro needs either the option schema_file or the option schema_registry"
            raise ConfigError("MISSING_KEY", what)
        object.__setattr__(self, "registry", given.get(REGISTRY, ""))
        if SCHEMA_FILE in given:
            object.__setattr__(self, "schema", _checked(read_schema_file(given[SCHEMA_FILE]), given[SCHEMA_FILE]))

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        if not self.registry:
            return _decoded(values, schema, self.schema)
        return self._by_ids(values, schema)

    def _by_ids(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        """Values of equal schema are decoded together."""

        def decode(prefix: bytes, content: pa.Array) -> Decoded | None:
            number = schema_id(prefix)
            text = None if number is None else fetch_schema(self.registry, number)
            if text is None:
                return None
            return _decoded(content, schema, _checked(text.encode(), f"schema {number} of {self.registry}"))

        if not len(values):
            return good(nulls(0, schema))
        return decode_by_prefix(values, pc.binary_slice(values, 0, PREFIX_BYTES), schema, decode)


def _parser() -> ModuleType:
    found: ModuleType = optional_module("pyruhvro", "Avro values", extra="avro", everywhere=True)
    return found


def _decoded(values: pa.Array, schema: pa.Schema, writer: str) -> Decoded:
    parser = _parser()

    def parse(part: pa.Array) -> pa.RecordBatch:
        return pa.record_batch(parser.deserialize_array(part.to_pylist(), writer))

    return decode_by_parts(values, schema, parse, as_base64)


def _checked(content: bytes, place: str) -> str:
    """The text of a schema; ConfigError if it is no record, or has a type that cannot be decoded."""
    try:
        found = json.loads(content)
    except ValueError as broken:
        raise ConfigError("SCHEMA_FILE", f"`{place}` is not an Avro schema: {broken}") from broken
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ConfigError("SCHEMA_FILE", f"`{place}` is not the schema of an Avro record")
    used = sorted({kind for kind in _UNSUPPORTED if f'"{kind}"' in json.dumps(found)})
    if used:
        raise ConfigError("SCHEMA_FILE", f"`{place}` has the logical type {used[0]}, which cannot be decoded")
    return json.dumps(found)
