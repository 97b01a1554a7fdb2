"""Codecs of message values: good values become columns, bad ones are bad one by one, whatever is beside them."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.scan.registry_server import RegistryServer
from windowpane.errors import ConfigError
from windowpane.scan.avro import AvroCodec
from windowpane.scan.codec import Codec
from windowpane.scan.csv_values import CsvCodec
from windowpane.scan.debezium import DebeziumJsonCodec
from windowpane.scan.protobuf import ProtobufCodec
from windowpane.scan.schema_registry import fetch_schema
from windowpane.scan.string_values import StringCodec

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
AVRO = {
    "type": "record",
    "name": "bid",
    "fields": [
        {"name": "k", "type": ["null", "string"]},
        {"name": "v", "type": "long"},
        {"name": "x", "type": "double"},
    ],
}


def rows(codec: Codec, values: list[bytes], schema: pa.Schema = COLUMNS) -> list[dict[str, Any] | str]:
    """Of each value the row, or the text of a bad one."""
    decoded = codec.decode(pa.array(values, pa.binary()), schema)
    pairs = zip(decoded.columns.to_pylist(), decoded.bad.to_pylist(), strict=True)
    return [row if text is None else text for row, text in pairs]


def kept(value: bytes) -> str:
    return f"base64:{base64.b64encode(value).decode()}"


def zigzag(number: int) -> bytes:
    number, found = (number << 1) ^ (number >> 63), b""
    while number > 127:
        number, found = number >> 7, found + bytes([number & 127 | 128])
    return found + bytes([number])


def bid(k: bytes | None, v: int, x: float) -> bytes:
    text = zigzag(0) if k is None else zigzag(1) + zigzag(len(k)) + k
    return text + zigzag(v) + struct.pack("<d", x)


BAD_AVRO = [
    b"",
    b"\x02",
    bid(b"a", 5, 1.5)[:-1],
    b"\xff" * 20,
    bid(b"\xff\xfe", 1, 1.0),
    zigzag(7) + bid(None, 1, 1.0)[1:],
]


@pytest.fixture
def avsc(tmp_path: Path) -> str:
    file = tmp_path / "bid.avsc"
    file.write_text(json.dumps(AVRO), encoding="utf-8")
    return str(file)


def test_avro_of_one_schema(avsc: str) -> None:
    values, wanted = list[bytes](), list[Any]()
    for number in range(2000):
        bad = BAD_AVRO[number % len(BAD_AVRO)] if number % 97 == 0 else None
        values.append(bad if bad is not None else bid(b"k%d" % number, number, number / 2))
        wanted.append(kept(bad) if bad is not None else {"k": f"k{number}", "v": number, "x": number / 2})
    assert rows(AvroCodec({"schema_file": avsc}), values) == wanted
    other = pa.schema([("x", pa.float64()), ("v", pa.int32()), ("none", pa.string()), ("k", pa.string())])
    found = rows(AvroCodec({"schema_file": avsc}), [bid(None, 7, 1.0), bid(None, 1 << 40, 1.0)], other)
    assert found == [{"x": 1.0, "v": 7, "none": None, "k": None}, kept(bid(None, 1 << 40, 1.0))]
    assert rows(AvroCodec({"schema_file": avsc}), []) == []


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(login="me:a b") as server:
        yield server


def test_avro_with_schemas_of_a_registry(registry: RegistryServer) -> None:
    """Two versions of a schema side by side."""
    first = registry.register(json.dumps(AVRO))
    fields: list[Any] = [{"name": "v", "type": "int"}, *AVRO["fields"][:1], {"name": "more", "type": "string"}]
    second = registry.register(json.dumps({**AVRO, "fields": fields}))
    old = b"\0" + struct.pack(">I", first) + bid(b"a", 5, 1.5)
    new = b"\0" + struct.pack(">I", second) + zigzag(6) + zigzag(1) + zigzag(1) + b"b" + zigzag(1) + b"m"
    bad = [b"", b"\0\0", b"\1" + old[1:], b"\0" + struct.pack(">I", 999) + old[5:], old[:-1], b'{"k": 1}']
    codec = AvroCodec({"schema_registry": registry.url.replace("://", "://me:a%20b@")})
    fetch_schema.cache_clear()
    one, two = {"k": "a", "v": 5, "x": 1.5}, {"k": "b", "v": 6, "x": None}
    assert rows(codec, [old, new, *bad, old]) == [one, two, *map(kept, bad), one]
    asked = registry.asked
    assert rows(codec, [new, old] * 500) == [two, one] * 500
    assert registry.asked == asked, "schemas are asked for once"
    registry.close()
    with pytest.raises(OSError, match="refused"):
        rows(codec, [b"\0" + struct.pack(">I", 77) + b"x"])


@pytest.fixture
def proto(tmp_path: Path) -> tuple[str, Any]:
    """A descriptor set as protoc makes it, and the class of its messages."""
    file = descriptor_pb2.FileDescriptorProto(name="bid.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Bid")
    for number, (name, kind) in enumerate([("k", 9), ("v", 3), ("x", 1)], start=1):
        message.field.add(name=name, number=number, type=kind, label=1)
    kind = message.enum_type.add(name="Kind")
    kind.value.add(name="PLAIN", number=0)
    kind.value.add(name="FANCY", number=1)
    message.field.add(name="kind", number=4, type=14, label=1, type_name=".shop.Bid.Kind")
    place = tmp_path / "bid.desc"
    place.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return str(place), message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Bid"))


def test_protobuf(proto: tuple[str, Any]) -> None:
    place, bid_class = proto
    schema = pa.schema([*COLUMNS, ("kind", pa.string())])
    good = [bid_class(k=f"k{n}", v=n, x=n / 2, kind=n % 2).SerializeToString() for n in range(1, 500)]
    bad = [b"\x0a", b"\x0a\x05a", good[0] + b"\xff", b"\x0a\x02\xff\xfe", b"\x0b"]
    wanted: list[Any] = [{"k": f"k{n}", "v": n, "x": n / 2, "kind": ["PLAIN", "FANCY"][n % 2]} for n in range(1, 500)]
    assert rows(ProtobufCodec({"schema_file": place}), [*bad, *good, *bad], schema) == [
        *map(kept, bad), *wanted, *map(kept, bad),
    ]  # fmt: skip
    assert rows(ProtobufCodec({"schema_file": place, "message": "shop.Bid"}), [b""]) == [{"k": "", "v": 0, "x": 0.0}]


def test_protobuf_with_schemas_of_a_registry(registry: RegistryServer) -> None:
    """Behind the id of the schema, a value has the place of its message in the file."""
    file = descriptor_pb2.FileDescriptorProto(name="", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    first, second = file.message_type.add(name="Bid"), file.message_type.add(name="Other")
    inner = second.nested_type.add(name="Inner")
    for number, (name, kind) in enumerate([("k", 9), ("v", 3)], start=1):
        first.field.add(name=name, number=number, type=kind, label=1)
        inner.field.add(name=name, number=number + 5, type=kind, label=1)
    at = {"number": 3, "type": 11, "label": 1, "type_name": ".google.protobuf.Timestamp"}
    first.field.add(name="at", **at)
    number = registry.register("syntax = ...", file.SerializeToString())
    avro = registry.register(json.dumps(AVRO))
    begin = b"\0" + struct.pack(">I", number)
    plain = begin + b"\0" + b"\x0a\x01a\x10\x05\x1a\x02\x08\x02"
    nested = begin + zigzag(2) + zigzag(1) + zigzag(0) + b"\x32\x01b\x38\x06"
    listed = begin + zigzag(1) + zigzag(0) + plain[6:]
    bad = [
        b"", begin, begin + b"\0\x0a", begin + zigzag(1), begin + zigzag(1) + zigzag(7),
        begin + zigzag(1) + b"\x80\x01", begin + b"\x01\0", b"\0" + struct.pack(">I", 999) + b"\0", b"\1" + plain[1:],
    ]  # fmt: skip
    codec = ProtobufCodec({"schema_registry": registry.url.replace("://", "://me:a%20b@")})
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    fetch_schema.cache_clear()
    two_seconds = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    one = {"k": "a", "v": 5, "at": two_seconds}
    assert rows(codec, [plain, *bad, nested, listed], schema) == [
        one, *map(kept, bad), {"k": "b", "v": 6, "at": None}, one,
    ]  # fmt: skip
    assert rows(codec, []) == []
    with pytest.raises(ConfigError, match="not a Protobuf schema"):
        rows(codec, [b"\0" + struct.pack(">I", avro) + b"\0x"])
    with pytest.raises(ConfigError, match="each value names its message"):
        ProtobufCodec({"schema_registry": registry.url, "message": "shop.Bid"})


def test_csv() -> None:
    good = {b"a,1,0.5": ("a", 1, 0.5), b'"b, ""c""",2,': ('b, "c"', 2, None), b",3,1e3": (None, 3, 1000.0),
            b'"x\ny",4,1': ("x\ny", 4, 1.0), b'"",5,1': ("", 5, 1.0)}  # fmt: skip
    bad = [b"", b"a", b"a,b,1", b"a,1,0.5,more", b'"open,1,2', b"a,1,1\nb,2,2", b"\xff,1,1", b"a,1.5,1"]
    wanted = [dict(zip(COLUMNS.names, row, strict=True)) for row in good.values()]
    texts = [value.decode("utf-8", "replace") for value in bad]
    assert rows(CsvCodec({}), [*good, *bad, *good]) == [*wanted, *texts, *wanted]
    other = CsvCodec({"sep": ";", "nullValue": "-"})
    assert rows(other, [b"a,b;-;2"]) == [{"k": "a,b", "v": None, "x": 2.0}]


def test_string() -> None:
    schema = pa.schema([("line", pa.string())])
    assert rows(StringCodec({}), [b"a", b"", b"\xff", "ä".encode()], schema) == [
        {"line": "a"}, {"line": ""}, "�", {"line": "ä"},
    ]  # fmt: skip
    with pytest.raises(ConfigError):
        rows(StringCodec({}), [b"a"], COLUMNS)


def test_debezium() -> None:
    """With and without schemas; deletes have the row as it was."""
    one, two = {"k": "a", "v": 1, "x": 0.5}, {"k": "a", "v": 2, "x": 0.5}
    events: list[Any] = [
        {"before": None, "after": one, "op": "c", "ts_ms": 5, "source": {"table": "t"}},
        {"schema": {}, "payload": {"before": one, "after": two, "op": "u", "ts_ms": 6}},
        {"before": two, "after": None, "op": "d", "ts_ms": 7},
        {"after": one, "op": "r"},
    ]
    bad: list[Any] = [
        {"op": "t", "ts_ms": 8},
        {"op": "d", "before": None},
        {"op": "c", "after": {"v": "x"}},
        [],
        {"a": 1},
    ]
    schema = pa.schema([*COLUMNS, ("op", pa.string()), ("ts_ms", pa.int64())])
    found = rows(DebeziumJsonCodec({}), [json.dumps(event).encode() for event in [*events, *bad]], schema)
    assert found == [
        {**one, "op": "c", "ts_ms": 5}, {**two, "op": "u", "ts_ms": 6}, {**two, "op": "d", "ts_ms": 7},
        {**one, "op": "r", "ts_ms": None}, *map(json.dumps, bad),
    ]  # fmt: skip


def test_mistakes_are_found_when_a_codec_is_made(tmp_path: Path, avsc: str, proto: tuple[str, Any]) -> None:
    (tmp_path / "other").write_text("[]", encoding="utf-8")
    (tmp_path / "decimal").write_text(
        json.dumps({**AVRO, "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal"}}]})
    )
    for make, options in [
        (AvroCodec, {}), (AvroCodec, {"schema_file": avsc, "schema_registry": "http://x"}),
        (AvroCodec, {"schema_file": str(tmp_path / "missing")}), (AvroCodec, {"schema_file": str(tmp_path / "other")}),
        (AvroCodec, {"schema_file": str(tmp_path / "decimal")}), (AvroCodec, {"schema_file": proto[0]}),
        (ProtobufCodec, {}), (ProtobufCodec, {"schema_file": avsc}),
        (ProtobufCodec, {"schema_file": proto[0], "message": "shop.Bit"}), (CsvCodec, {"sep": "::"}),
        (CsvCodec, {"header": "true"}), (StringCodec, {"sep": ","}), (DebeziumJsonCodec, {"x": "y"}),
    ]:  # fmt: skip
        with pytest.raises(ConfigError):
            make(options)
