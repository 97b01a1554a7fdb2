"""Makes a bundle, or finds the one that an earlier call has made from the same files."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from windowpane.bundling.archive import Member, write_archive
from windowpane.bundling.bytecode import compiled, compiled_path
from windowpane.bundling.distributions import files_of, own_version
from windowpane.bundling.interpreter import (
    PROGRAM,
    SITE_PACKAGES,
    VERSION,
    check_platform,
    interpreter_files,
)
from windowpane.errors import BundleError

LAUNCHER = PurePosixPath("bin", "python3")
"""The program that workers run, inside the unpacked archive."""
_LAUNCHER = f"""#!/bin/sh
# Runs this folder's Python with the shared libraries beside it, wherever the folder is.
home=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
LD_LIBRARY_PATH=$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export LD_LIBRARY_PATH
exec "$home/{PROGRAM}" -s "$@"
"""
_FORMAT = 1
"""Raised when the same files would give another archive."""


@dataclass(frozen=True)
class Bundle:
    """An archive for `spark.archives`."""

    path: Path
    digest: str
    """Of the files in it: part of its name."""
    python: str
    platform: str
    libc: str
    """Executors need this version of the C library or a newer one."""
    size: int
    is_new: bool
    """Whether this call has made it."""

    def document(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "path": str(self.path), "digest": self.digest, "bytes": self.size, "python": self.python,
            "platform": self.platform, "libc": self.libc, "made_now": self.is_new,
        }  # fmt: skip


def make_bundle(packages: Iterable[str] = (), folder: Path | None = None) -> Bundle:
    """A bundle with windowpane, these packages and all that they require, in `folder` or in the user's cache.

    Its name is a digest of its contents, so an archive that exists is not made again.
    """
    check_platform()
    usable = _usable(folder or default_folder())
    files = _files(packages)
    digest = _digest(files)
    machine = f"{sys.platform}-{platform.machine()}"
    name = f"windowpane-{own_version()}-cp{VERSION.replace('.', '')}-{machine}-{digest}.tar.gz"
    path = usable / name
    is_new = not path.exists()
    if is_new:
        _write(path, files)
    libc = "-".join(platform.libc_ver()) or "unknown"
    return Bundle(path, digest, platform.python_version(), machine, libc, path.stat().st_size, is_new)


def default_folder() -> Path:
    """Where bundles are kept for the next start."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "windowpane" / "bundles"


def _usable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BundleError(
            "BUNDLE_FOLDER", f"no bundle can be written to {folder}: {problem.strerror}",
            "set XDG_CACHE_HOME to a folder that can be written to, or use windowpane bundle --output",
        ) from problem  # fmt: skip
    return folder


def _files(packages: Iterable[str]) -> dict[PurePosixPath, Path]:
    below = {SITE_PACKAGES / name: path for name, path in files_of(packages).items()}
    return interpreter_files() | below


def _digest(files: dict[PurePosixPath, Path]) -> str:
    """Of names and contents. Launcher, bytecode and archive follow from them."""
    digest = blake2b(f"{_FORMAT} {_LAUNCHER}".encode(), digest_size=8)
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0".encode())
        digest.update(blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


def _write(path: Path, files: dict[PurePosixPath, Path]) -> None:
    try:
        write_archive(path, _members(files))
    except OSError as problem:
        raise BundleError(
            "BUNDLE_FOLDER", f"{path} cannot be written: {problem.strerror}",
            "make space there, set XDG_CACHE_HOME, or use windowpane bundle --output",
        ) from problem  # fmt: skip


def _members(files: dict[PurePosixPath, Path]) -> Iterator[Member]:
    about = {"windowpane": own_version(), "python": platform.python_version(), "libc": "-".join(platform.libc_ver())}
    yield PurePosixPath("bundle.json"), (json.dumps(about, sort_keys=True) + "\n").encode(), False
    yield LAUNCHER, _LAUNCHER.encode(), True
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        yield name, content, name == PROGRAM
        code = compiled(name, content) if name.suffix == ".py" else None
        if code is not None:
            yield compiled_path(name), code, False
