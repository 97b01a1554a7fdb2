"""Names of state pieces, and the files of a cache of them."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path


def piece(content: bytes) -> str:
    """The name of a state entry that never changes."""
    return f"1/0#{blake2b(content, digest_size=16).hexdigest()}"


def cached(folder: Path) -> list[str]:
    """Digests of the pieces in a folder."""
    return sorted(path.name for path in folder.iterdir() if len(path.name) == 32)
