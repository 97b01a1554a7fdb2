"""Lists the files that a path of a stream stands for, without Spark and in the order in which Spark reads them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from windowpane.errors import ConfigError, gist
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.objects import client, is_object_store, key_of, obstore_module, scheme_of

_MAGIC = "*?[{"


@dataclass(frozen=True)
class SourceFile:
    """A file of a stream. `path` is a local path or the address of an object."""

    path: str
    modified_us: int
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def source_files(
    path: str, access: Access = NO_ACCESS, *, recursive: bool = False, name_filter: str | None = None
) -> list[SourceFile]:
    """Files of a file, a folder, a glob or an address of an object store, oldest first.

    As Spark does: names that begin with `_` or `.` are left out, folders such as `dt=2026-01-31` are searched, and
    other folders only if `recursive`. ConfigError if there is no such place.
    """
    path = path.removeprefix("file://").removeprefix("file:")
    found = _objects(path, access) if is_object_store(path) else _local(path)
    kept = [
        file
        for base, file in found
        if _is_read(file.path.removeprefix(base).strip("/"), recursive=recursive)
        and (name_filter is None or _matches(file.name, name_filter))
    ]
    return sorted(kept, key=lambda file: (file.modified_us, file.path))


def has_pattern(path: str) -> bool:
    """Whether a path is a glob."""
    return any(char in path for char in _MAGIC)


def _is_read(below: str, *, recursive: bool) -> bool:
    """`below`: the path from the folder of the stream on."""
    *folders, name = below.split("/")
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in (*folders, name))
    return not hidden and (recursive or all("=" in folder for folder in folders))


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatchcase(name, each) for each in expanded(pattern))


def expanded(pattern: str) -> list[str]:
    """The alternatives of a glob with braces: `*.{a,b}` is `*.a` and `*.b`."""
    start = pattern.find("{")
    end = pattern.find("}", start)
    if start < 0 or end < 0:
        return [pattern]
    choices = pattern[start + 1 : end].split(",")
    return [each for choice in choices for each in expanded(pattern[:start] + choice + pattern[end + 1 :])]


def _local(path: str) -> Iterator[tuple[str, SourceFile]]:
    """Files with the folder that their place is judged from."""
    scheme = scheme_of(path)
    if scheme:
        hint = "name a local path, or an address of s3a://, gs:// or abfss://"
        raise ConfigError("UNSUPPORTED_ADDRESS", f"files of {scheme}:// are listed by Spark only", hint)
    if Path(path).exists():
        matched = [path]
    else:
        patterns = expanded(path) if has_pattern(path) else ()
        matched = sorted({each for pattern in patterns for each in glob.glob(pattern)})  # noqa: PTH207  # absolute too
    if not matched:
        what = "no file or folder matches" if has_pattern(path) else "there is no file or folder"
        raise ConfigError("PATH_NOT_FOUND", f"{what} `{path}`")
    for each in matched:
        if Path(each).is_dir():
            for folder, _, names in os.walk(each):
                yield from ((each, _found(Path(folder) / name)) for name in names)
        else:
            yield str(Path(each).parent), _found(Path(each))


def _found(path: Path) -> SourceFile:
    status = path.stat()
    return SourceFile(str(path), status.st_mtime_ns // 1_000, status.st_size)


def _objects(address: str, access: Access) -> Iterator[tuple[str, SourceFile]]:
    """Objects of an address, or below it, with the folder that their place is judged from."""
    key, bucket = key_of(address), "/".join(address.split("/")[:3])
    patterns = expanded(key)
    base = (
        key if not has_pattern(key) else key[: min(key.find(char) for char in _MAGIC if char in key)].rpartition("/")[0]
    )
    try:
        # A prefix is a folder, so an object is looked for in the folder that it is in.
        listed = _listed(address, access, base) or _listed(address, access, base.rpartition("/")[0])
    except ConfigError:
        raise
    except Exception as failed:
        raise ConfigError("STORE_UNREACHABLE", f"`{address}` cannot be listed: {gist(failed)}") from failed
    found = [(root, each) for each in listed if (root := _root(str(each["path"]), patterns)) is not None]
    if not found:
        raise ConfigError("PATH_NOT_FOUND", f"there is no object `{address}`, and none below it")
    for root, each in found:
        modified_us = round(each["last_modified"].timestamp() * 1_000_000)
        yield f"{bucket}/{root}", SourceFile(f"{bucket}/{each['path']}", modified_us, int(each["size"]))


def _listed(address: str, access: Access, prefix: str) -> list[Any]:
    return [each for page in obstore_module().list(client(address, access), prefix=prefix or None) for each in page]


def _root(key: str, patterns: list[str]) -> str | None:
    """The folder that the place of an object is judged from: the one that a pattern names, or that of an object."""
    parts = key.split("/")
    for pattern in patterns:
        named = pattern.split("/") if pattern else []
        if len(named) <= len(parts) and all(map(fnmatchcase, parts, named)):
            return "/".join(parts[: min(len(named), len(parts) - 1)])
    return None
