"""The Protobuf codec: messages of one type, described by a descriptor set of `protoc`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa

from windowpane.errors import ConfigError, nearest
from windowpane.scan.bisecting import as_base64, decode_by_parts
from windowpane.scan.codec_options import checked_options, missing_package, read_schema_file
from windowpane.scan.decoded import Decoded

SCHEMA_FILE, MESSAGE = "schema_file", "message"


@dataclass(frozen=True)
class ProtobufCodec:
    """Fields become columns by name. A field that a message leaves out has the default of its type, or is NULL if the
    schema calls it `optional`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    files: tuple[bytes, ...] = ()
    message: str = ""

    def __post_init__(self) -> None:
        given = checked_options("protobuf", self.options, (SCHEMA_FILE, MESSAGE))
        _ptars()
        if SCHEMA_FILE not in given:
            raise ConfigError("MISSING_KEY", "value_format protobuf needs the option schema_file")
        found = _descriptors(given[SCHEMA_FILE])
        names = [f"{file.package}.{each.name}".lstrip(".") for file in found.file for each in file.message_type]
        message = given.get(MESSAGE) or (names[0] if len(names) == 1 else "")
        if message not in names:
            what = f"`{given[SCHEMA_FILE]}` has no message `{message}`" if message else "the option message is missing"
            raise ConfigError("BAD_CHOICE", f"value_format protobuf: {what}", f"valid: {nearest(message, names)}")
        object.__setattr__(self, "files", tuple(file.SerializeToString() for file in found.file))
        object.__setattr__(self, "message", message)

    def decode(self, values: pa.Array, schema: pa.Schema) -> Decoded:
        handler = _handler(self.files, self.message)
        return decode_by_parts(values, schema, handler.array_to_record_batch, as_base64)


def _ptars() -> ModuleType:
    try:
        import ptars  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as missing:
        raise missing_package("ptars", "protobuf") from missing
    return ptars


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
