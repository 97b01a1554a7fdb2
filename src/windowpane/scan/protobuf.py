"""The Protobuf codec: messages of one type, described by a descriptor set of `protoc`, or messages that name their type
in a schema registry.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.errors import ConfigError, nearest
from windowpane.remote.optional_packages import optional_module
from windowpane.scan.bisecting import as_base64, decode_by_parts
from windowpane.scan.codec_options import checked_options, read_schema_file
from windowpane.scan.decoded import Decoded, good, nulls
from windowpane.scan.schema_registry import PREFIX_BYTES, decode_by_prefix, fetch_schema, schema_id

SCHEMA_FILE, MESSAGE, REGISTRY = "schema_file", "message", "schema_registry"
_WELL_KNOWN = "google/protobuf/"
_ONE_BYTE = 0x80
"""Numbers from here on take more than one byte."""


@dataclass(frozen=True)
class ProtobufCodec:
    """Fields become columns by name. A field that a message leaves out has the default of its type, or is NULL if the
    schema calls it `optional`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    files: tuple[bytes, ...] = ()
    message: str = ""
    registry: str = ""

    def __post_init__(self) -> None:
        given = checked_options("protobuf", self.options, (SCHEMA_FILE, MESSAGE, REGISTRY))
        _ptars()
        if (SCHEMA_FILE in given) == (REGISTRY in given):
            what = "value_format protobuf needs either the option schema_file or the option schema_registry"
            raise ConfigError("MISSING_KEY", what)
        if REGISTRY in given:
            if MESSAGE in given:
                raise ConfigError("CONFLICTING_KEYS", "with schema_registry, each value names its message", "remove it")
            object.__setattr__(self, "registry", given[REGISTRY])
            return
        found = _descriptors(given[SCHEMA_FILE])
        names = [f"{file.package}.{each.name}".lstrip(".") for file in found.file for each in file.message_type]
        message = given.get(MESSAGE) or (names[0] if len(names) == 1 else "")
        if message not in names:
            what = f"`{given[SCHEMA_FILE]}` has no message `{message}`" if message else "the option message is missing"
            raise ConfigError("BAD_CHOICE", f"value_format protobuf: {what}", f"valid: {nearest(message, names)}")
        object.__setattr__(self, "files", tuple(file.SerializeToString() for file in found.file))
        object.__setattr__(self, "message", message)

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        if not len(values):
            return good(nulls(0, schema))
        if not self.registry:
            return _decoded(values, schema, self.files, self.message)
        return self._by_ids(values, schema)

    def _by_ids(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        """Messages of equal type are decoded together."""

        def decode(prefix: bytes, content: pa.Array) -> Decoded | None:
            number, path = schema_id(prefix[:PREFIX_BYTES]), _message_path(prefix[PREFIX_BYTES:])
            text = None if number is None or path is None else fetch_schema(self.registry, number, "PROTOBUF")
            if text is None or path is None:
                return None
            files, message = _registered(text, path)
            return None if message is None else _decoded(content, schema, files, message)

        return decode_by_prefix(values, _prefixes(values), schema, decode)


def _decoded(values: pa.Array, schema: pa.Schema, files: tuple[bytes, ...], message: str) -> Decoded:
    return decode_by_parts(values, schema, _handler(files, message).array_to_record_batch, as_base64)


def _prefixes(values: pa.Array) -> pa.Array:
    """The id of the schema, and the place of the message's type in it: a count, and as many numbers."""
    counts = pc.dictionary_encode(pc.binary_slice(values, PREFIX_BYTES, PREFIX_BYTES + 1))
    found = pa.nulls(len(values), pa.binary())
    for code, count in enumerate(counts.dictionary.to_pylist()):
        # Zigzag: a count is written twice as large.
        length = PREFIX_BYTES + 1 + (count[0] // 2 if count else 0)
        found = pc.if_else(pc.equal(counts.indices, code), pc.binary_slice(values, 0, length), found)
    return found


def _message_path(place: bytes) -> tuple[int, ...] | None:
    """Numbers of the type, and of types inside it; None if it is damaged, or has more than 63 types beside it."""
    if not place or any(number >= _ONE_BYTE or number % 2 for number in place) or len(place) != 1 + place[0] // 2:
        return None
    return tuple(number // 2 for number in place[1:]) or (0,)


@cache
def _registered(text: str, path: tuple[int, ...]) -> tuple[tuple[bytes, ...], str | None]:
    """The files of a schema in a registry, and the name of the message at `path`; None if there is none."""
    found = import_module("google.protobuf.descriptor_pb2").FileDescriptorProto.FromString(base64.b64decode(text))
    found.name = found.name or "registered.proto"
    unknown = [name for name in found.dependency if not name.startswith(_WELL_KNOWN)]
    if unknown:
        what = f"a schema of the registry imports `{unknown[0]}`"
        raise ConfigError("SCHEMA_REGISTRY", what, "give the whole schema as schema_file")
    needed = [_module(name).DESCRIPTOR.serialized_pb for name in found.dependency]
    parts, types = [found.package] if found.package else [], found.message_type
    for number in path:
        if number >= len(types):
            return (), None
        parts.append(types[number].name)
        types = types[number].nested_type
    return (*needed, found.SerializeToString()), ".".join(parts)


def _module(file: str) -> ModuleType:
    """The module of a file of Protobuf itself, such as google/protobuf/timestamp.proto."""
    return import_module(f"{file.removesuffix('.proto').replace('/', '.')}_pb2")


def _ptars() -> ModuleType:
    found: ModuleType = optional_module("ptars", "Protobuf values", extra="protobuf", everywhere=True)
    return found


def _descriptors(path: str) -> Any:
    """A FileDescriptorSet. Its package is one of PySpark's, and loaded when it is needed."""
    hint = "make it with: protoc --include_imports --descriptor_set_out=FILE …"
    content = read_schema_file(path)
    try:
        found = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(content)
    except import_module("google.protobuf.message").DecodeError as broken:
        raise ConfigError("SCHEMA_FILE", f"`{path}` is not a descriptor set of Protobuf", hint) from broken
    if not found.file:
        raise ConfigError("SCHEMA_FILE", f"`{path}` is an empty descriptor set", hint)
    return found


@cache
def _handler(files: tuple[bytes, ...], message: str) -> Any:
    config = _ptars().PtarsConfig(timestamp_unit="us", enum_repr="string")
    return import_module("ptars._lib").ProtoRegistry(list(files)).create_for_message(message, config)
