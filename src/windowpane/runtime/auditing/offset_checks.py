"""Checks of the offsets that Spark has planned: each micro-batch begins where the one before ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.runtime.auditing.check import Check, skipped


def offsets_check(log: OffsetLog, entries: list[Entry]) -> Check:
    """Spark keeps the offsets of the last batches only. Within them nothing is missing and nothing goes back."""
    planned = log.planned_batches()
    if not planned:
        return skipped("source offsets", "Spark's offset log has no batch")
    findings = [f"the offset log has no batch {batch}"
                for batch in sorted(set(range(planned[0], planned[-1] + 1)) - set(planned))]  # fmt: skip
    before: list[Any] | None = None
    for batch in planned:
        now = log.offsets(batch)
        if before is not None:
            findings += [f"batch {batch}: {what}" for what in _went_back(before, now)]
        before = now
    findings += _clocks(log, planned, entries)
    findings += [f"file {path} was read by more than one micro-batch" for path in log.repeated_files()]
    return Check("source offsets", f"batches {planned[0]} to {planned[-1]} of Spark's offset log", findings)


def _went_back(before: list[Any], now: list[Any]) -> Iterator[str]:
    for source, (earlier, later) in enumerate(zip(before, now, strict=False)):
        if earlier is None:
            continue
        if later is None:
            yield f"source {source} has no offset, although it had one before"
            continue
        old, new = dict(_numbers(earlier)), dict(_numbers(later))
        for place, number in old.items():
            if place not in new:
                yield f"source {source} has lost the offset of {place}"
            elif new[place] < number:
                yield f"the offset of {place} goes back from {number} to {new[place]}: rows would be read twice"


def _numbers(offset: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """`{"bids": {"0": 12}}`: 12 at `bids/0`."""
    if isinstance(offset, Mapping):
        for name, inside in offset.items():
            yield from _numbers(inside, f"{place}/{name}".lstrip("/"))
    elif isinstance(offset, int) and not isinstance(offset, bool):
        yield place or "its position", offset


def _clocks(log: OffsetLog, planned: list[int], entries: list[Entry]) -> Iterator[str]:
    """An entry has the timestamp under which Spark planned its batch."""
    known = {entry.batch_id: entry for entry in entries if entry.accounting.get("in_") and not entry.final}
    for batch in planned:
        if batch in known and known[batch].clock_us != log.timestamp_us(batch):
            yield f"batch {batch}: the ledger has another timestamp than Spark's offset log"
