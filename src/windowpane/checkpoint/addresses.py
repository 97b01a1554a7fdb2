"""Addresses of input files, as Spark's source logs write them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote


def local_path(address: str) -> str | None:
    """A path on this machine; None for an address on another file system."""
    if address.startswith("file:"):
        return "/" + unquote(address.removeprefix("file:")).lstrip("/")
    return None if "://" in address else address


def plain(address: str) -> str:
    """The path or the address of a file as its name is written, without the escapes of a log."""
    return local_path(address) or unquote(address)


def is_under(address: str, folder: str) -> bool:
    """Whether a file of a source's log is in a folder, which is a path or an address and ends with a slash."""
    return f"{plain(address)}/".startswith(local_path(folder) or folder)


def folder_of(path: str, base: Path) -> str:
    """The prefix of the addresses of a stream's files: its path up to the first wildcard."""
    cut = min((at for char in "*?[{" if (at := path.find(char)) >= 0), default=None)
    fixed = path[:cut] if "://" in path else str((base / path[:cut]).absolute())
    return fixed if cut is not None else f"{fixed.rstrip('/')}/"
