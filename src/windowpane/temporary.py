"""Temporary folders of a process. What a killed process has left is removed by the next one that makes a folder.

The owner of a folder holds a lock on a file in it for as long as it lives. A lock tells more than a process id does:
ids are used again, and containers that share a temporary folder do not see each other's processes.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PREFIX = "windowpane-"
KINDS = ("jvm", "python", "golden", "rescale", "state")
_LOCK = "owner.lock"
_UNLOCKED_SECONDS = 3600.0
"""After this time, an empty folder without a lock is of a process that was killed while it made the folder."""
_held: dict[Path, IO[bytes]] = {}
_shared: dict[Path, IO[bytes]] = {}


def make_temporary(kind: str) -> Path:
    """A new folder of this process, for its owner alone, gone when the process ends."""
    assert kind in KINDS
    remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
    draft = folder / f".{_LOCK}"
    lock = draft.open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    draft.rename(folder / _LOCK)  # under its name, it is always locked
    _held[folder] = lock
    return folder


def join_temporary(folder: Path) -> None:
    """Share a folder with other processes of this user. It is a leftover when all of them have ended."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user alone")
    lock = (folder / _LOCK).open("ab")
    fcntl.flock(lock, fcntl.LOCK_SH)
    earlier, _shared[folder] = _shared.get(folder), lock
    if earlier is not None:  # of a folder that somebody has removed
        earlier.close()


def lock_of(folder: Path) -> int:
    """The descriptor of a folder's lock. A child process that inherits it keeps the folder, even if we are killed."""
    return _held[folder].fileno()


def remove_temporary(folder: Path) -> None:
    """Remove a folder of this process."""
    lock = _held.pop(folder, None)
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        lock.close()


@contextlib.contextmanager
def temporary(kind: str) -> Iterator[Path]:
    """A folder that is removed at the end of the block."""
    folder = make_temporary(kind)
    try:
        yield folder
    finally:
        remove_temporary(folder)


def remove_leftovers() -> None:
    """Remove folders of this user whose process has ended."""
    for kind in KINDS:
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{kind}-*"):
            with contextlib.suppress(OSError):
                _remove_unowned(folder)


def remove_leftovers_in(parent: Path, pattern: str, *, own: Path) -> None:
    """Remove shared folders of this user, other than `own`, whose processes have all ended."""
    for folder in parent.glob(pattern):
        if folder != own:
            with contextlib.suppress(OSError):
                _remove_unowned(folder)


def _remove_unowned(folder: Path) -> None:
    found = folder.lstat()
    if folder in _held or folder.is_symlink() or found.st_uid != os.getuid():
        return
    try:
        lock = (folder / _LOCK).open("rb")
    except FileNotFoundError:
        if time.time() - found.st_mtime > _UNLOCKED_SECONDS:
            (folder / f".{_LOCK}").unlink(missing_ok=True)
            folder.rmdir()  # fails unless it is empty
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _remove_own() -> None:
    for folder in tuple(_held):
        remove_temporary(folder)
