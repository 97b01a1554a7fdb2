"""Opens files of HDFS with hdfs-native, which needs no Java. It is installed with the extra `windowpane[hdfs]`."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from windowpane.remote.access import Access
from windowpane.remote.objects import scheme_of
from windowpane.remote.optional_packages import optional_module

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader


def is_hdfs(address: str) -> bool:
    """Whether it names a file of HDFS and its namenode or nameservice."""
    return scheme_of(address) == "hdfs" and bool(urlsplit(address).netloc)


def has_hdfs_native() -> bool:
    """Whether the client is installed. Without it, Spark's Hadoop reads the files."""
    return find_spec("hdfs_native") is not None


def open_hdfs(address: str, access: Access) -> FileReader:
    """A file, read by ranges. FileNotFoundError if it is gone."""
    server, path = address.partition("://")[2].partition("/")[::2]
    return _client(server, access, os.getpid()).read(f"/{path}")


@lru_cache(maxsize=16)
def _client(server: str, access: Access, _process: int) -> Client:
    """Clients are shared within a process, but not with forked ones."""
    client: Client = optional_module("hdfs_native", "files of HDFS", extra="hdfs").Client(
        f"hdfs://{server}", access.hdfs()
    )
    return client
