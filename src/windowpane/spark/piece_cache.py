"""Pieces of state as files on the executor's local disk, which all its Python workers share and map into memory.

Spark gives a shard to another worker in every micro-batch, and a call to Spark's state copies what it reads several
times. A piece is named by a digest of its content (`core/segments.py`), so a file is valid whatever was replayed, moved
to another executor or rolled back. This is a cache: what is missing or damaged here is read from Spark's state.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections import OrderedDict
from functools import cache
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from windowpane.core.blob import Blob
from windowpane.core.segments import DIGEST
from windowpane.temporary import join_temporary, remove_leftovers_in

FOLDER = "windowpane-state"
LOCAL_FOLDERS = "SPARK_LOCAL_DIRS"
"""The environment variable in which Spark names the folders of an executor, which go when the executor ends."""
_NAMED = re.compile(rf"{DIGEST}([0-9a-f]{{32}})$")
_DRAFT = ".draft-"
_REMEMBERED = 16_384
"""How many files a worker remembers as intact."""
_FRESH_SECONDS = 10.0
"""A file that was used this recently counts as used now."""
_SCANS = 32
"""A worker looks at the folder's size whenever it has written this fraction of what the folder may hold."""
_ABANDONED_SECONDS = 3600.0
"""After this time, a draft is of a worker that was killed while it wrote."""
_log = logging.getLogger("windowpane.state")


class PieceCache:
    """Files named by digests in one folder, of about `max_bytes` together. Without a folder, nothing is cached."""

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder if max_bytes else None, max_bytes
        self._intact: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._written = max_bytes  # for all that this worker knows, others have filled the folder
        self._joined = False

    @property
    def is_on(self) -> bool:
        """Whether pieces are cached. The first failure to write one ends it for this worker."""
        return self._folder is not None

    def read(self, name: str) -> pa.Buffer | None:
        """A piece, mapped; None if it is not here, or damaged."""
        path = self._path(name)
        found = _mapped(path) if path else None
        if path is None or found is None:
            return None
        content, status = found
        if not self._is_intact(path.name, content, status):
            self.drop(name)
            return None
        _note_use(path, status)
        return content

    def put(self, name: str, content: Blob) -> None:
        """Cache a piece that Spark's state has, or is about to have."""
        path = self._path(name)
        if path is None:
            return
        try:
            self._write(path, content)
        except OSError as problem:
            self._folder = None
            _log.warning("a worker stops caching state, which makes it slower: %s", problem)

    def drop(self, name: str) -> None:
        """Remove a piece. Workers that have it mapped keep it until they are done."""
        path = self._path(name)
        if path is not None:
            self._intact.pop(path.name, None)
            with contextlib.suppress(OSError):
                path.unlink()

    def _path(self, name: str) -> Path | None:
        found = _NAMED.search(name)
        return None if self._folder is None or found is None else self._folder / found[1]

    def _is_intact(self, digest: str, content: pa.Buffer, status: os.stat_result) -> bool:
        """Compare the content with its digest, once per worker and file."""
        if self._intact.get(digest) == _stamp(status):
            return True
        if blake2b(content, digest_size=16).hexdigest() != digest:
            return False
        self._intact[digest] = _stamp(status)
        if len(self._intact) > _REMEMBERED:
            self._intact.popitem(last=False)
        return True

    def _write(self, path: Path, content: Blob) -> None:
        if not self._joined:
            join_temporary(path.parent)
            self._joined = True
        try:
            _write_whole(path, content)
        except FileNotFoundError:  # somebody has removed the folder
            join_temporary(path.parent)
            _write_whole(path, content)
        self._written += len(content)
        if self._written > self._max_bytes // _SCANS:
            _trim(path.parent, self._max_bytes)
            self._written = 0


def local_folder() -> Path | None:
    """A folder on the local disk of this worker's executor; None outside of a worker."""
    given = os.environ.get(LOCAL_FOLDERS, "").split(",")[0]
    return Path(given) if given else None


@cache
def worker_cache(max_bytes: int) -> PieceCache:
    """The cache of this Python worker, in a folder of its executor."""
    given = local_folder()
    if given is None or not max_bytes:
        return PieceCache(None, max_bytes)
    folder = given / FOLDER
    remove_leftovers_in(folder.parents[1], f"*/{FOLDER}", own=folder)
    return PieceCache(folder, max_bytes)


def _mapped(path: Path) -> tuple[pa.Buffer, os.stat_result] | None:
    """A file's content with its status; None if it cannot be read, or is being replaced."""
    try:
        before = path.stat()
        if not before.st_size:
            return None
        with pa.memory_map(str(path)) as file:
            content = file.read_buffer()
        after = path.stat()
    except OSError:
        return None
    return (content, after) if _stamp(before) == _stamp(after) else None


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _note_use(path: Path, status: os.stat_result) -> None:
    """Write the time of the last use, which many mounts do not."""
    now = time.time()
    if now - status.st_atime > _FRESH_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(path, ns=(int(now * 1e9), status.st_mtime_ns))


def _write_whole(path: Path, content: Blob) -> None:
    """Under its name, a file is whole. Other workers may write the same one at the same time."""
    number, draft = tempfile.mkstemp(prefix=_DRAFT, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _trim(folder: Path, max_bytes: int) -> None:
    """Remove the files that were used longest ago, also if the disk fills up with other data."""
    files = list(_files(folder))
    size = sum(status.st_size for _, status in files)
    allowed = min(max_bytes, (size + shutil.disk_usage(folder).free) // 2)
    if size <= allowed:
        return
    for path, status in sorted(files, key=lambda each: each[1].st_atime_ns):
        if size <= allowed - allowed // 8:
            return
        path.unlink(missing_ok=True)
        size -= status.st_size


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Pieces and abandoned drafts."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            is_draft = entry.name.startswith(_DRAFT)
            if is_draft and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                Path(entry.path).unlink()
            elif not is_draft and _NAMED.match(f"{DIGEST}{entry.name}"):
                found.append((Path(entry.path), status))
    return found
