"""Files and folders that survive a power failure, with the mode of the folder that they are in."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def write_file(path: Path, data: bytes, mode: int, *, synced: bool = True) -> None:
    """Write a file. If its content is synced to disk, its name is durable once its folder is synced too."""
    with path.open("wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        if synced:
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


def sync_below(path: Path) -> None:
    """Sync a file, or a folder with everything below it."""
    if not path.is_dir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return
    for each in path.iterdir():
        sync_below(each)
    sync_folder(path)


def tighten_mode(path: Path) -> None:
    """Take from a file or folder what the folder it is in does not allow. Links, and what others own, stay as is."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        allowed = ~0o777 | path.parent.stat().st_mode & (0o777 if stat.S_ISDIR(mode) else 0o666)
        if mode & ~allowed and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode & allowed))
