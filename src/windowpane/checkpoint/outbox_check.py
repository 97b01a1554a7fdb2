"""Checks that no undelivered side rows are missing: the ledger has their number, the outbox holds them.

A file of the outbox is the only copy of its rows until they are delivered. Nothing else would notice that it is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.outbox import COUNT_FILE, Outbox
from windowpane.checkpoint.store import corrupt


def check_outbox(ledger: Ledger, outbox: Callable[[str], Outbox], committed: int) -> None:
    """StateError unless all rows that committed batches have put into an outbox are delivered or still there."""
    entry = ledger.read(committed) if committed >= 0 else None
    for sink, wanted in entry.outbox.items() if entry else ():
        found = outbox(sink)
        there = found.handed_over(committed)
        if there is not None and there != wanted:
            missing = _missing_file(ledger, found, sink, committed)
            reason = f"the ledger has {wanted} side rows for sink `{sink}`, and {there} are delivered or wait"
            hint = f"restore it from a copy. To continue without these rows, set `lost` in {found.address(COUNT_FILE)}"
            raise corrupt(missing or found.address(), f"it is gone: {reason}" if missing else reason, hint)


def _missing_file(ledger: Ledger, outbox: Outbox, sink: str, committed: int) -> str | None:
    """The file of the first batch that put rows into the outbox, if it is neither there nor delivered."""
    settled, pending = outbox.settled_until(), outbox.pending()
    for batch_id in ledger.batch_ids():
        if settled < batch_id <= committed and batch_id not in pending:
            entry, before = ledger.read(batch_id), ledger.read(batch_id - 1)
            rows = entry.outbox.get(sink, 0) - (before.outbox.get(sink, 0) if before else 0) if entry else 0
            if entry and rows > 0:
                return outbox.address_of(batch_id, rows, entry.fence)
    return None
