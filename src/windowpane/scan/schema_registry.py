"""Schemas of a Confluent-compatible registry: a value begins with a zero byte and the id of its schema."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.errors import ConfigError
from windowpane.scan.bisecting import as_base64
from windowpane.scan.decoded import Decoded, Positions, bad, in_order

DecodePart: TypeAlias = Callable[[bytes, pa.Array], Decoded | None]
"""From a prefix, and values without it, to what is decoded; None if there is no schema for the prefix."""

Kind: TypeAlias = Literal["AVRO", "PROTOBUF"]
PREFIX_BYTES = 5
_SECONDS = 30
_FORMATS: dict[Kind, str] = {"AVRO": "", "PROTOBUF": "format=serialized"}
"""What is asked for: of Protobuf, the descriptor of the file in place of its text."""
_NAMES: dict[Kind, str] = {"AVRO": "an Avro", "PROTOBUF": "a Protobuf"}


def decode_by_prefix(values: pa.Array, prefixes: pa.Array, schema: pa.Schema, decode: DecodePart) -> Decoded:
    """Decode values with equal prefixes together, each without its prefix. Bad ones are kept whole."""
    encoded = pc.dictionary_encode(prefixes)
    codes = encoded.indices.to_numpy()
    parts: list[tuple[Positions, Decoded]] = []
    for code, prefix in enumerate(encoded.dictionary.to_pylist()):
        at = np.flatnonzero(codes == code)
        part = values.take(pa.array(at)) if len(encoded.dictionary) > 1 else values
        parts.append((at, _of_prefix(part, schema, prefix, decode)))
    return in_order(parts, schema) if len(parts) != 1 else parts[0][1]


def _of_prefix(values: pa.Array, schema: pa.Schema, prefix: bytes, decode: DecodePart) -> Decoded:
    decoded = decode(prefix, _without_start(values, len(prefix)))
    if decoded is None:
        return bad(as_base64(values), schema)
    is_bad = decoded.bad.is_valid()
    if not pc.any(is_bad).as_py():
        return decoded
    return Decoded(decoded.columns, pc.if_else(is_bad, as_base64(values), pa.scalar(None, pa.string())))


def schema_id(prefix: bytes) -> int | None:
    """The id in the first bytes of a value; None if there is none."""
    if len(prefix) < PREFIX_BYTES or prefix[0]:
        return None
    return int(struct.unpack(">I", prefix[1:])[0])


def _without_start(values: pa.Array, count: int) -> pa.Array:
    """Values without their first bytes. Arrow's binary_slice fails where the end of the slice is left open."""
    size = len(values)
    found = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + size + 1]
    offsets = np.empty(2 * size + 1, np.int32)
    offsets[0::2], offsets[1::2] = found, found[:-1] + count
    cut = pa.Array.from_buffers(pa.binary(), 2 * size, [None, pa.py_buffer(offsets), values.buffers()[2]])
    return cut.take(pa.array(np.arange(1, 2 * size, 2)))


@cache
def fetch_schema(registry: str, number: int, kind: Kind = "AVRO") -> str | None:
    """The text of a schema, in base64 for Protobuf; None if the registry has none of this id.

    An id keeps its schema, so it is asked once. A registry that does not answer is an error of the task, which Spark
    tries again: the values are not to blame.
    """
    request = _request(registry, f"/schemas/ids/{number}", _FORMATS[kind])
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # checked in _request
            found = json.load(answer)
    except urllib.error.HTTPError as refused:
        refused.close()
        if refused.code == 404:
            return None
        raise
    if found.get("references") or found.get("schemaType", "AVRO") != kind:
        what = f"schema {number} of {_place(registry)} refers to others, or is not {_NAMES[kind]} schema"
        raise ConfigError("SCHEMA_REGISTRY", what, "give the whole schema as schema_file")
    return str(found["schema"])


def _request(registry: str, path: str, query: str) -> urllib.request.Request:
    parts = urlsplit(registry)
    if parts.scheme not in ("http", "https"):
        raise ConfigError("BAD_URL", "schema_registry is not a URL that begins with http:// or https://")
    place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, query, ""))
    request = urllib.request.Request(place, headers={"Accept": "application/vnd.schemaregistry.v1+json"})  # noqa: S310
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
    return request


def _place(registry: str) -> str:
    """The address without a password."""
    return urlsplit(registry).netloc.rpartition("@")[2]
