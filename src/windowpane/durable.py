"""Files and folders that survive a power failure."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_synced(path: Path, data: bytes, mode: int) -> None:
    """Write a file and sync its content to disk. Its name is durable once its folder is synced too."""
    with path.open("wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each with the mode of the one it is in."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    mode = folder.parent.stat().st_mode & 0o777
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(mode)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk: new, renamed and removed files stay so."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
