"""Whether the rows that wait to be read again are all there: the ledger says how many, the queue's files hold them.

A file of the queue is a row's only copy until a later micro-batch reads it. Spark does not miss a file that vanished
before it was listed, so the rows would stay buffered for ever and be in no result.
"""

from __future__ import annotations

import re
from pathlib import Path

from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.offset_log import read_files
from windowpane.core import columns as c
from windowpane.durable import corrupt

_LINE = re.compile(rb'\{.*,"' + re.escape(c.REINJECTIONS).encode() + rb'":\d+\}')


def check_waiting(spark: Path, ledger: Ledger, queue: Path, committed: int) -> None:
    """StateError unless the queue holds as many rows as the entry of the last committed batch says."""
    entry = ledger.read(committed) if committed >= 0 else None
    wanted = entry.reinjecting if entry else 0
    files = [path for path in sorted(queue.glob("*/*.json")) if path.stem.isdigit() and int(path.stem) <= committed]
    if not wanted and not files:
        return
    read = read_files(spark, committed, queue)
    there = sum(_rows(path) for path in files if str(path.resolve()) not in read)
    if there != wanted:
        missing = _missing(ledger, queue, committed, read)
        reason = f"{there} rows wait to be read again, and the ledger has {wanted}"
        raise corrupt(missing or queue, f"it is gone: {reason}" if missing else reason)


def _rows(path: Path) -> int:
    """How many rows a file has, each a line as it was written."""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as failed:
        raise corrupt(path, failed.strerror or failed) from failed
    if rest or not lines or not all(_LINE.fullmatch(line) for line in lines):
        raise corrupt(path, "it holds no rows to be read again")
    return len(lines)


def _missing(ledger: Ledger, queue: Path, committed: int, read: set[str]) -> Path | None:
    """The file of a batch that sent rows back, if it is neither there nor read."""
    done = {Path(path).name for path in read}
    streams = [path for path in queue.glob("*") if path.is_dir()]
    for batch_id in ledger.batch_ids():
        name = f"{batch_id:012}.json"
        entry = ledger.read(batch_id) if batch_id <= committed and name not in done else None
        if entry and entry.reinjected and not any((stream / name).exists() for stream in streams):
            return (streams[0] if len(streams) == 1 else queue) / name
    return None
