"""What Spark has planned for a micro-batch, as its checkpoint says before the batch runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from windowpane.durable import corrupt
from windowpane.errors import gist


@dataclass(frozen=True)
class PlannedFile:
    """A file of a micro-batch: its address, and when it was last changed."""

    path: str
    modified_ms: int


def batch_files(checkpoint: Path, batch_id: int) -> list[str]:
    """The files of a micro-batch, of all its sources."""
    found = planned_files(checkpoint, batch_id).values()
    return sorted({file.path for files in found for file in files})


def planned_files(checkpoint: Path, batch_id: int) -> dict[int, list[PlannedFile]]:
    """The files of a micro-batch by the number of their source, by the offset log and the sources' own logs."""
    until, after = offsets(checkpoint, batch_id), offsets(checkpoint, batch_id - 1)
    planned = {}
    for source, offset in until.items():
        if "logOffset" in offset:
            first = int(after.get(source, {}).get("logOffset", -1)) + 1
            planned[source] = _logged(checkpoint / "sources" / str(source), first, int(offset["logOffset"]))
    return planned


def read_files(checkpoint: Path, batch_id: int, folder: Path) -> set[str]:
    """Paths of the files in a local folder that this micro-batch or an earlier one has read."""
    inside, found = f"{folder.resolve()}/", set[str]()
    for source, offset in offsets(checkpoint, batch_id).items():
        if "logOffset" in offset:
            files = _logged(checkpoint / "sources" / str(source), 0, int(offset["logOffset"]))
            found |= {local_path(file.path) or "" for file in files if is_under(file.path, inside)}
    return found


def offsets(checkpoint: Path, batch_id: int) -> dict[int, dict[str, Any]]:
    """How far each source goes with a batch. The log has a version, metadata, then a line per source."""
    lines = _lines(checkpoint / "offsets" / str(batch_id))[2:]
    read = {source: json.loads(line) for source, line in enumerate(lines) if line.startswith("{")}
    return {source: offset for source, offset in read.items() if isinstance(offset, dict)}


def planned_ms(checkpoint: Path, batch_id: int) -> int:
    """When the batch was planned: written before it runs, and kept for a replay."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["batchTimestampMs"])


def _logged(log: Path, first: int, last: int) -> list[PlannedFile]:
    """Files of a range of a source's log. What is older may stand in a later file that has all up to there."""
    own = [_entries(log / str(number)) or _entries(log / f"{number}.compact") for number in range(first, last + 1)]
    found = own if all(own) else [_entries(path) for path in log.glob("[0-9]*")]
    return [file for entries in found for number, file in entries if first <= number <= last]


def _entries(path: Path) -> list[tuple[int, PlannedFile]]:
    """The files that a file of a source's log names, each with its number in the log."""
    try:
        read = [json.loads(line) for line in _lines(path) if line.startswith("{")]
        return [(int(each["batchId"]), PlannedFile(str(each["path"]), int(each["timestamp"]))) for each in read]
    except (ValueError, KeyError, TypeError, OSError) as broken:
        raise corrupt(path, f"not a Spark log ({gist(broken)})") from broken


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def local_path(address: str) -> str | None:
    """A path on this machine; None for an address on another file system."""
    if address.startswith("file:"):
        return "/" + unquote(address.removeprefix("file:")).lstrip("/")
    return None if "://" in address else address


def is_under(address: str, folder: str) -> bool:
    """Whether a file of a source's log is in a folder, which is a path or an address and ends with a slash."""
    return f"{local_path(address) or address}/".startswith(local_path(folder) or folder)


def folder_of(path: str, base: Path) -> str:
    """What the addresses of a stream's files begin with, up to the first wildcard."""
    cut = min((at for char in "*?[{" if (at := path.find(char)) >= 0), default=None)
    fixed = path[:cut] if "://" in path else str((base / path[:cut]).absolute())
    return fixed if cut is not None else f"{fixed.rstrip('/')}/"
