"""How Delta's library reaches object stores: its names for what Hadoop's settings say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from windowpane.remote.access import Access
from windowpane.remote.objects import scheme_of


def storage_options(address: str, access: Access) -> dict[str, str]:
    """Options of deltalake, whose store is the one that obstore has."""
    authority = urlsplit(address).netloc
    scheme = scheme_of(address)
    if scheme in ("s3", "s3a"):
        given = access.s3(authority)
        if "region" not in given and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
            given["region"] = "us-east-1"
        client = given.pop("client_options", {})
        return _texts({f"aws_{name}": value for name, value in given.items()} | client)
    if scheme == "gs":
        return _texts({f"google_{name}": value for name, value in access.gs().items()})
    if scheme in ("abfs", "abfss"):
        host = authority.partition("@")[2]
        return _texts({f"azure_{name}": value for name, value in access.azure(host.partition(".")[0], host).items()})
    return {}


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
