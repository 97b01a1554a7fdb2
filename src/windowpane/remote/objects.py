"""Opens object stores with obstore, which is installed with the extra `windowpane[s3]`."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from windowpane.remote.access import Access
from windowpane.remote.optional_packages import optional_module

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3a", "s3", "gs", "abfss", "abfs")


def scheme_of(address: str) -> str:
    """`s3a` of `s3a://bucket/x`; empty for a path."""
    return address.partition("://")[0].lower() if "://" in address else ""


def is_object_store(address: str) -> bool:
    return scheme_of(address) in SCHEMES


def key_of(address: str) -> str:
    """What an object is called within its bucket."""
    return address.partition("://")[2].partition("/")[2].strip("/")


def client(address: str, access: Access) -> ObjectStore:
    """The bucket or container of an address. Clients are shared within a process, but not with forked ones."""
    authority = urlsplit(address.partition("?")[0]).netloc
    return _client(scheme_of(address), authority, access, os.getpid())


@lru_cache(maxsize=64)
def _client(scheme: str, authority: str, access: Access, _process: int) -> ObjectStore:
    stores = obstore_module("store")
    if scheme in ("s3a", "s3"):
        given = access.s3(authority)
        if "region" not in given and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
            given["region"] = "us-east-1"
        store: ObjectStore = stores.S3Store(authority, **given)
    elif scheme == "gs":
        store = stores.GCSStore(authority, **access.gs())
    else:
        container, _, host = authority.partition("@")
        store = stores.AzureStore(container, **access.azure(host.partition(".")[0], host))
    return store


def has_obstore() -> bool:
    """Whether the client is installed. Without it, Spark's Hadoop reads and writes objects, and copies to rename."""
    return find_spec("obstore") is not None


def obstore_module(name: str = "") -> Any:
    """obstore, or one of its modules; ConfigError if it is not installed."""
    return optional_module(f"obstore.{name}" if name else "obstore", "object stores", extra="s3")
