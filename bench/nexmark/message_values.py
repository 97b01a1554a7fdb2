"""Bids as values of messages in Avro and Protobuf, and what engines need to read them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.json as pj
from google.protobuf import descriptor_pb2

ValueFormat: TypeAlias = Literal["json", "avro", "protobuf"]
MESSAGE = "nexmark.Bid"
_FIELDS = (("auction", 3), ("bidder", 3), ("price", 3), ("channel", 9), ("url", 9), ("ts", 3))
"""Names, and the numbers of Protobuf's types. The time is in milliseconds since 1970."""
_MILLISECONDS = {"type": "long", "logicalType": "timestamp-millis"}
AVRO_SCHEMA = json.dumps({
    "type": "record", "name": "Bid",
    "fields": [
        {"name": name, "type": _MILLISECONDS if name == "ts" else "string" if kind == 9 else "long"}
        for name, kind in _FIELDS
    ],
})  # fmt: skip
"""As Flink derives it from the columns of a table: it reads values only by the schema that they were written with."""


def write_schema(value_format: ValueFormat, folder: Path) -> Path:
    """The file for `options.schema_file`."""
    if value_format == "avro":
        path = folder / "bid.avsc"
        path.write_text(AVRO_SCHEMA, encoding="utf-8")
        return path
    path = folder / "bid.desc"
    path.write_bytes(_descriptors().SerializeToString())
    return path


def encoded(lines: bytes, value_format: ValueFormat) -> list[bytes]:
    """Rows that are lines of JSON, as values of messages."""
    if value_format == "json":
        return lines.splitlines()
    kinds = {"ts": pa.timestamp("ms")}
    declared = pa.schema(
        [(name, kinds.get(name) or (pa.string() if kind == 9 else pa.int64())) for name, kind in _FIELDS]
    )
    options = pj.ParseOptions(explicit_schema=declared)
    found = pj.read_json(pa.BufferReader(lines), pj.ReadOptions(block_size=len(lines) + 1), options)
    (rows,) = found.select(declared.names).combine_chunks().to_batches()
    return _avro(rows) if value_format == "avro" else _protobuf(rows)


def _avro(rows: pa.RecordBatch) -> list[bytes]:
    import pyruhvro  # noqa: PLC0415  # an extra

    required = pa.schema([field.with_nullable(False) for field in rows.schema])
    (values,) = pyruhvro.serialize_record_batch(rows.cast(required), AVRO_SCHEMA, 1)
    found: list[bytes] = values.to_pylist()
    return found


def _protobuf(rows: pa.RecordBatch) -> list[bytes]:
    import ptars  # noqa: PLC0415  # an extra

    files = [file.SerializeToString() for file in _descriptors().file]
    handler = import_module("ptars._lib").ProtoRegistry(files).create_for_message(MESSAGE, ptars.PtarsConfig())
    position = rows.schema.get_field_index("ts")
    found: list[bytes] = handler.record_batch_to_array(
        rows.set_column(position, "ts", rows.column(position).cast(pa.int64()))
    ).to_pylist()
    return found


def _descriptors() -> descriptor_pb2.FileDescriptorSet:
    package, _, name = MESSAGE.partition(".")
    file = descriptor_pb2.FileDescriptorProto(name="bid.proto", package=package, syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(_FIELDS, start=1):
        message.field.add(name=field, number=number, type=kind, label=1)
    return descriptor_pb2.FileDescriptorSet(file=[file])
