"""Checks that nothing undelivered is missing: the ledger has the number of rows, the outbox holds them.

A file of an outbox is the only copy of its rows until they are delivered. Nothing else would notice that it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.outbox_files import COUNT_FILE, OutboxFiles
from windowpane.checkpoint.store import corrupt

Counts = Callable[[Entry], Mapping[str, int]]
"""Rows that a batch and those before it have put into an outbox, by sink."""


def check_outbox(ledger: Ledger, outbox: Callable[[str], OutboxFiles[Any]], committed: int, counts: Counts) -> None:
    """StateError unless all rows that committed batches have put into an outbox are delivered or still there."""
    entry = ledger.read(committed) if committed >= 0 else None
    for sink, wanted in counts(entry).items() if entry else ():
        found = outbox(sink)
        there = found.handed_over(committed)
        if there is not None and there != wanted:
            missing = _missing_file(ledger, found, sink, committed, counts)
            reason = f"the ledger has {wanted} {found.holds} for sink `{sink}`, and {there} are delivered or wait"
            hint = f"restore it from a copy. To continue without these rows, set `lost` in {found.address(COUNT_FILE)}"
            raise corrupt(missing or found.address(), f"it is gone: {reason}" if missing else reason, hint)


def _missing_file(ledger: Ledger, outbox: OutboxFiles[Any], sink: str, committed: int, counts: Counts) -> str | None:
    """The file of the first batch that put rows into the outbox, if it is neither there nor delivered."""
    settled, pending = outbox.settled_until(), outbox.pending()
    for batch_id in ledger.batch_ids():
        if settled < batch_id <= committed and batch_id not in pending:
            entry, before = ledger.read(batch_id), ledger.read(batch_id - 1)
            rows = counts(entry).get(sink, 0) - (counts(before).get(sink, 0) if before else 0) if entry else 0
            if entry and rows > 0:
                return outbox.address_of(batch_id, rows, entry.fence)
    return None
