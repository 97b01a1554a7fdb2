"""The files of a checkpoint: written whole and synced to disk, read with their shape checked.

Every piece is written by `write_whole` and read by `read_object`, so that damage is always a StateError that names the
file. A file or folder takes its mode from the folder it is in: the checkpoint's own folder says who may read it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from windowpane.errors import StateError

Shape = Mapping[str, type | tuple[type, ...]]
"""The keys that an object must have, with the types of their values."""
_RESTORE = "restore it from a copy, or set another `checkpoint` folder to start anew"


def corrupt(path: Path, reason: object, hint: str = _RESTORE) -> StateError:
    """A piece of a checkpoint that cannot be used."""
    return StateError("CHECKPOINT_CORRUPT", f"{path} is damaged: {reason}", hint)


def read_object(path: Path, shape: Shape, hint: str = _RESTORE) -> dict[str, Any] | None:
    """The JSON object in a file; None when the file is not there."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise corrupt(path, failed.strerror or failed, hint) from failed
    except (ValueError, RecursionError) as broken:
        raise corrupt(path, f"no JSON ({broken})", hint) from broken
    if not isinstance(content, dict):
        raise corrupt(path, "no JSON object", hint)
    for key, kinds in shape.items():
        if key not in content or not _is(content[key], kinds):
            raise corrupt(path, f"`{key}` is missing or of another type", hint)
    return content


def _is(value: object, kinds: type | tuple[type, ...]) -> bool:
    """JSON's true is no number."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all, also after the machine has lost power."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with writing(path):
        make_folder(path.parent)
        try:
            write_synced(draft, data, path.parent.stat().st_mode & 0o666)
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_synced(path: Path, data: bytes, mode: int) -> None:
    """Write a file that stays as it is when the machine loses power, if its folder is synced too."""
    with path.open("wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around a change of the checkpoint: StateError when the file system refuses it."""
    try:
        yield
    except OSError as failed:
        raise unwritable(path, failed.strerror or str(failed)) from failed


def unwritable(path: object, reason: str) -> StateError:
    """The checkpoint cannot be written: the disk is full, for one."""
    hint = "nothing is lost: once it can be written again, start the pipeline again"
    return StateError("STATE", f"the checkpoint cannot be written: {path}: {reason}", hint)


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
    """What was made, renamed or removed in a folder stays so after the machine has lost power."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove_drafts(folder: Path) -> None:
    """Drafts of a process that was killed while it wrote."""
    for draft in folder.glob(".*.tmp"):
        draft.unlink(missing_ok=True)
