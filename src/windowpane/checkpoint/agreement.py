"""Whether the parts of a transform's checkpoint are of one moment: the ledger, and Spark's own logs.

A micro-batch is planned in Spark's offset log, entered in the ledger, then committed in Spark's commit log. So the
three may differ by one batch, and in one direction. Anything else is damage, and going on would count rows wrongly.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from windowpane.checkpoint.ledger import KEPT, Ledger
from windowpane.durable import corrupt, read_object

_VERSION = re.compile(r"v\d+")
_GONE = "it is missing, although the checkpoint has state"


def last_id(log: Path) -> int:
    """The last batch of one of Spark's logs, -1 when there is none."""
    ids = [int(path.name) for path in log.iterdir() if path.name.isdigit()] if log.is_dir() else []
    return max(ids, default=-1)


def has_state(spark: Path, ledger: Ledger) -> bool:
    """Whether anything has run here."""
    return max(last_id(spark / "offsets"), last_id(spark / "commits"), *ledger.batch_ids()[-1:], -1) >= 0


def run_id(spark: Path) -> str:
    """What Spark calls the query; the same after every restart."""
    found = read_object(spark / "metadata", {"id": str})
    if found is None:
        raise corrupt(spark / "metadata", _GONE)
    return str(found["id"])


def check_agreement(spark: Path, ledger: Ledger, plan_file: Path) -> None:
    """StateError, with the file that is wrong, unless the ledger and Spark's logs agree."""
    if not has_state(spark, ledger):
        read_object(spark / "metadata", {"id": str})
        return
    if not plan_file.exists():
        raise corrupt(plan_file, _GONE)
    run_id(spark)
    committed = last_id(spark / "commits")
    _check_entries(ledger, committed)
    _check_logs(spark, committed)


def _check_entries(ledger: Ledger, committed: int) -> None:
    ids = ledger.batch_ids()
    last = ids[-1] if ids else -1
    if last < committed:
        raise corrupt(ledger.path(committed), f"it is missing, although Spark has committed batch {committed}")
    if last > committed + 1:
        reason = f"Spark has committed batch {committed} only, so there cannot be an entry after batch {committed + 1}"
        raise corrupt(ledger.path(last), reason)
    there = set(ids)
    for batch_id in range(max(0, last - KEPT + 1), last):
        if batch_id not in there:
            raise corrupt(ledger.path(batch_id), "it is missing, although later entries exist")
    for batch_id in {committed, last} - {-1}:
        ledger.read(batch_id)


def _check_logs(spark: Path, committed: int) -> None:
    planned = last_id(spark / "offsets")
    if not committed <= planned <= committed + 1:
        beyond = spark / "offsets" / str(max(planned, committed))
        raise corrupt(beyond, f"Spark has committed batch {committed} and planned batch {planned}")
    if committed >= 0:
        _log_lines(spark / "commits" / str(committed))
    for batch_id in {committed, planned} - {-1}:
        _check_sources(spark, _log_lines(spark / "offsets" / str(batch_id)))


def _check_sources(spark: Path, lines: list[Any]) -> None:
    """A file source's own log must reach as far as the batch that was planned from it."""
    for source, offset in enumerate(lines[1:]):
        number = offset.get("logOffset") if isinstance(offset, dict) else None
        if isinstance(number, int) and number >= 0:
            path = spark / "sources" / str(source) / str(number)
            whole = path.with_name(f"{number}.compact")
            _log_lines(whole if whole.exists() else path)


def _log_lines(path: Path) -> list[Any]:
    """What one of Spark's log files says: a version, then a line of JSON each, `-` for nothing."""
    try:
        version, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        if not _VERSION.fullmatch(version):
            raise corrupt(path, "not a Spark log")
        return [None if line == "-" else json.loads(line) for line in lines]
    except FileNotFoundError as gone:
        raise corrupt(path, _GONE) from gone
    except OSError as failed:
        raise corrupt(path, failed.strerror or failed) from failed
    except (ValueError, RecursionError) as broken:
        raise corrupt(path, f"not a Spark log ({broken})") from broken
