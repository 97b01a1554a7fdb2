"""`status.json`: what a running pipeline reports about itself, for other processes to read."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any

from windowpane.durable import Shape, read_object

STATUS_FILE = "status.json"
_SHAPE: Shape = {
    "state": str,
    "pid": int,
    "started_us": int,
    "updated_us": int,
    "transforms": dict,
    "error": (dict, NoneType),
}


def read_status(folder: Path) -> dict[str, Any] | None:
    """What was last written, None when nothing has ever run here."""
    return read_object(folder / STATUS_FILE, _SHAPE, "remove it: the next start writes it anew")
