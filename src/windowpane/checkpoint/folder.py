"""`FolderStore`: a checkpoint in a mounted folder, synced to disk.

A file or folder takes its mode from the folder it is in, so the mode of the root decides who may read the checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from windowpane.checkpoint.lease import SECONDS, StoreLease
from windowpane.checkpoint.store import Store, adopt_by_reading, corrupt, exchange_by_comparison, unwritable
from windowpane.durable import make_folder, sync_below, sync_folder, tighten_mode, write_file

_DRAFT = re.compile(r"\..+\.\d+(-\d+)?\.tmp")
"""Names of unfinished writes, with the process and the thread that write them."""


class FolderStore:
    """A store whose objects are files below `root`."""

    fence = 0

    def __init__(self, root: Path, lease_seconds: float = SECONDS) -> None:
        self._root, self._lease_seconds = root, lease_seconds

    def make_root(self, mode: int | None = None) -> None:
        """Create the root folder if it is not there, and give it `mode`."""
        with _changing(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            if mode is not None:
                self._root.chmod(mode)

    def tighten(self) -> None:
        """Take from everything below the root, and from the root, what the folder it is in does not allow."""
        with _changing(self._root):
            if self._root.is_dir() and not self._root.is_symlink():
                tighten_mode(self._root)
                for folder, folders, files in os.walk(self._root):
                    for name in folders + files:
                        tighten_mode(Path(folder, name))

    def address(self, name: str = "") -> str:
        return str(self._root / name)

    def spark_path(self, name: str = "") -> str:
        return str((self._root / name).resolve())

    def below(self, name: str) -> Self:
        return type(self)(self._root / name, self._lease_seconds)

    def create(self, name: str, data: bytes) -> bool:
        path = self._root / name
        with _changing(path), _draft(path, data) as draft:
            try:
                _link(draft, path)
            except FileExistsError:
                return False
            sync_folder(path.parent)
            return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        path = self._root / name
        with _changing(path), _draft(path, data, synced=durable) as draft:
            draft.replace(path)
            if durable:
                sync_folder(path.parent)

    def exchange(self, name: str, data: bytes, known: bytes | None) -> bool:
        return exchange_by_comparison(self, name, data, known)

    def read(self, name: str) -> bytes | None:
        path = self._root / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise corrupt(path, failed.strerror or failed) from failed

    def exists(self, name: str) -> bool:
        return os.path.lexists(self._root / name)

    def names(self) -> list[str]:
        try:
            names = [path.name for path in self._root.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as failed:
            raise corrupt(self._root, failed.strerror or failed) from failed
        return sorted(name for name in names if not _DRAFT.fullmatch(name))

    def move(self, name: str, to: str) -> None:
        path = self._root / name
        with _changing(path), contextlib.suppress(FileNotFoundError):
            path.replace(self._root / to)
            sync_folder(path.parent)

    def copy(self, name: str, to: str) -> None:
        path, copied = self._root / name, self._root / to
        with _changing(copied), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            make_folder(copied.parent)
            if path.is_dir():
                shutil.copytree(path, copied, dirs_exist_ok=True)
            else:
                shutil.copy2(path, copied)
            sync_below(copied)
            sync_folder(copied.parent)

    def adopt(self, source: Store, name: str, to: str) -> bool:
        if not isinstance(source, FolderStore):
            return adopt_by_reading(self, source, name, to)
        path, target = source._root / name, self._root / to  # noqa: SLF001  # a store of this class
        with _changing(target):
            make_folder(target.parent)
            target.unlink(missing_ok=True)
            try:
                _share(path, target)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def sizes(self, name: str) -> dict[str, int]:
        top, found = self._root / name, dict[str, int]()
        for folder, _, files in os.walk(top):
            for each in (Path(folder, file) for file in files if not _DRAFT.fullmatch(file)):
                with contextlib.suppress(FileNotFoundError):
                    found[each.relative_to(top).as_posix()] = each.stat().st_size
        return found

    def delete(self, name: str, *, durable: bool = True) -> None:
        path = self._root / name
        with _changing(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
            if durable:
                sync_folder(path.parent)

    def clear(self, name: str) -> None:
        """Also removes the root if nothing is left in it."""
        path = self._root / name
        with _changing(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            sync_folder(path.parent)
        with contextlib.suppress(OSError):
            self._root.rmdir()

    def make_folder(self, name: str) -> None:
        with _changing(self._root / name):
            make_folder(self._root / name)

    def sync(self, name: str) -> None:
        with _changing(self._root / name):
            sync_below(self._root / name)

    def sweep(self) -> None:
        with _changing(self._root):
            for path in self._root.glob(".*.tmp"):
                if _DRAFT.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    def lease(self, name: str) -> FolderLease:
        objects = f"{name}.lease"
        return FolderLease(
            self._root / name, StoreLease(self, objects, self._lease_seconds, alone=True), self.below(objects)
        )


class FolderLease:
    """A lock on a file, which the system releases when the process ends, and a lease for where locks do not reach.

    Some mounted folders do not pass on locks to other machines.
    """

    def __init__(self, path: Path, lease: StoreLease, objects: FolderStore) -> None:
        self._path, self._lease, self._objects = path, lease, objects
        self._file: IO[bytes] | None = None

    @property
    def fence(self) -> int:
        return self._lease.fence

    def acquire(self) -> bool:
        with _changing(self._path):
            make_folder(self._path.parent)
            file = self._path.open("ab")
            os.fchmod(file.fileno(), self._path.parent.stat().st_mode & 0o666)
        self._objects.tighten()
        locked = _locked(file, fcntl.LOCK_EX, tries=5)
        self._lease.alone = locked is not None
        if locked is False:
            file.close()
            return False
        if not self._lease.acquire():
            file.close()
            return False
        self._file = file
        return True

    def held(self) -> bool:
        if not self._path.is_file():
            return False
        with self._path.open("rb") as probe:
            return _locked(probe, fcntl.LOCK_SH, tries=1) is False or self._lease.held()

    def check(self) -> None:
        self._lease.check()

    def release(self) -> None:
        self._lease.release()
        if self._file is not None:
            self._file.close()
            self._file = None


def _locked(file: IO[bytes], kind: int, tries: int) -> bool | None:
    """Lock a file; None on a file system without locks. Retries outlast another process's `held()` probe."""
    for left in reversed(range(tries)):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05 if left else 0)
        except OSError:
            return None
        else:
            return True
    return False


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise unwritable(path, failed.strerror or str(failed)) from failed


@contextlib.contextmanager
def _draft(path: Path, data: bytes, *, synced: bool = True) -> Iterator[Path]:
    """The data in a file beside `path`, which is gone at the end of the block."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    make_folder(path.parent)
    try:
        write_file(draft, data, path.parent.stat().st_mode & 0o666, synced=synced)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _share(path: Path, target: Path) -> None:
    """A second name for a file; a copy where that is not possible, or where the folder asks for another mode."""
    mode = target.parent.stat().st_mode & 0o666
    if path.stat().st_mode & 0o777 == mode:
        try:
            os.link(path, target)
        except FileNotFoundError:
            raise
        except OSError:  # another disk, or a file system without hard links
            pass
        else:
            return
    shutil.copy2(path, target)
    target.chmod(mode)


def _link(draft: Path, path: Path) -> None:
    """Give the draft its name unless the name is taken: FileExistsError."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: reserve the name, then replace
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        draft.replace(path)
