"""Writes the archive: equal contents give equal bytes, on every machine and at every time."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO

_LEVEL = 1
"""Level 6 takes four times as long for an archive that is a tenth smaller."""
_TIME = 315_532_800
"""1980, before which some programs do not accept times."""

Member = tuple[PurePosixPath, bytes, bool]
"""Name, content, and whether it is executable."""


def write_archive(path: Path, members: Iterable[Member]) -> None:
    """Write a .tar.gz, which is whole under its name."""
    number, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            _write(file, members)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _write(file: IO[bytes], members: Iterable[Member]) -> None:
    with (
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, content, is_executable in members:
            entry = tarfile.TarInfo(str(name))
            entry.size, entry.mtime, entry.mode = len(content), _TIME, 0o755 if is_executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
