"""Schemas of a Confluent-compatible registry: a value begins with a zero byte and the id of its schema."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.request
from functools import cache
from urllib.parse import unquote, urlsplit, urlunsplit

from windowpane.errors import ConfigError

PREFIX_BYTES = 5
_SECONDS = 30


def schema_id(prefix: bytes) -> int | None:
    """The id in the first bytes of a value; None if there is none."""
    if len(prefix) < PREFIX_BYTES or prefix[0]:
        return None
    return int(struct.unpack(">I", prefix[1:])[0])


@cache
def fetch_schema(registry: str, number: int) -> str | None:
    """The text of a schema; None if the registry has none of this id. An id keeps its schema, so it is asked once.

    A registry that does not answer is an error of the task, which Spark tries again: the values are not to blame.
    """
    request = _request(registry, f"/schemas/ids/{number}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # checked in _request
            found = json.load(answer)
    except urllib.error.HTTPError as refused:
        refused.close()
        if refused.code == 404:
            return None
        raise
    if found.get("references") or found.get("schemaType", "AVRO") != "AVRO":
        what = f"schema {number} of {_place(registry)} refers to others, or is not an Avro schema"
        raise ConfigError("SCHEMA_REGISTRY", what, "give the whole schema as schema_file")
    return str(found["schema"])


def _request(registry: str, path: str) -> urllib.request.Request:
    parts = urlsplit(registry)
    if parts.scheme not in ("http", "https"):
        raise ConfigError("BAD_URL", "schema_registry is not a URL that begins with http:// or https://")
    place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, "", ""))
    request = urllib.request.Request(place, headers={"Accept": "application/vnd.schemaregistry.v1+json"})  # noqa: S310
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
    return request


def _place(registry: str) -> str:
    """The address without a password."""
    return urlsplit(registry).netloc.rpartition("@")[2]
