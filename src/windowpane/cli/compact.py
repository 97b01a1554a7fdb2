"""`windowpane compact`: few large files instead of many small ones in file sinks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from windowpane.config import find_pipeline, load_pipeline
from windowpane.runtime.compacting import Compacted, compact

_MEGABYTE = 1024 * 1024


def compact_sinks(path: Path | None, transform: str | None, target_mb: int, *, as_json: bool) -> str:
    """Compact, and give the text to print."""
    done = compact(load_pipeline(path or find_pipeline()), transform, target_mb * _MEGABYTE)
    if as_json:
        return json.dumps({"sinks": [asdict(each) for each in done]}, indent=2, ensure_ascii=False)
    return "\n".join(map(_described, done)) or "no file sink has results of this pipeline"


def _described(done: Compacted) -> str:
    if done.note:
        return f"{done.sink}, {done.transform}: {done.note}"
    if done.before == done.after:
        return f"{done.sink}, {done.transform}: {done.before:,} files, none to merge"
    return f"{done.sink}, {done.transform}: {done.before:,} files became {done.after:,}"
