"""Reads what a tortured pipeline writes while it writes: a file of results is there as a whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.torture_places import Place

SINKS = ("results", "dlq", "every", "rest")
PAUSE_SECONDS = 0.3


@contextlib.contextmanager
def reading(job: Path, place: Place, found: list[str]) -> Iterator[None]:
    """Read new files for the length of the block. `found`: what was seen of files that were not whole."""
    ended = threading.Event()
    thread = threading.Thread(target=_read, args=(job, place, found, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read(job: Path, place: Place, found: list[str], ended: threading.Event) -> None:
    seen: set[str] = set()
    while not ended.wait(PAUSE_SECONDS):
        for sink in SINKS:
            for name in place.files(job, sink):
                if name.startswith("part-") and name not in seen:
                    data = place.read(job, f"{sink}/{name}")
                    seen.add(name)
                    if data is not None and not _is_whole(data):  # None: gone since it was listed
                        found.append(f"{sink}/{name} was seen before it was whole")


def _is_whole(data: bytes) -> bool:
    try:
        return data.endswith(b"\n") and all(isinstance(json.loads(line), dict) for line in data.splitlines())
    except ValueError:
        return False
