"""Whether the side rows that wait for their sinks are all there: the ledger says how many, the outbox holds them.

A file of the outbox is a row's only copy until it is delivered. Nothing else would notice that it is gone.
"""

from __future__ import annotations

from pathlib import Path

from windowpane.checkpoint.ledger import Ledger
from windowpane.checkpoint.outbox import COUNT_FILE, Outbox
from windowpane.durable import corrupt


def check_outbox(ledger: Ledger, outbox: Path, committed: int) -> None:
    """StateError unless every row that the committed batches have put into the outbox is delivered or waits there."""
    entry = ledger.read(committed) if committed >= 0 else None
    for sink, wanted in entry.outbox.items() if entry else ():
        found = Outbox(outbox / sink)
        there = found.handed_over(committed)
        if there is not None and there != wanted:
            missing = _missing_file(ledger, found, sink, committed)
            reason = f"the ledger has {wanted} side rows for sink `{sink}`, and {there} are delivered or wait"
            hint = f"restore it from a copy. To continue without these rows, set `lost` in {found.folder / COUNT_FILE}"
            raise corrupt(missing or found.folder, f"it is gone: {reason}" if missing else reason, hint)


def _missing_file(ledger: Ledger, outbox: Outbox, sink: str, committed: int) -> Path | None:
    """The file of the first batch that put rows into the outbox, if it is neither there nor delivered."""
    settled, waiting = outbox.settled_until(), outbox.waiting()
    for batch_id in ledger.batch_ids():
        if settled < batch_id <= committed and batch_id not in waiting:
            entry, before = ledger.read(batch_id), ledger.read(batch_id - 1)
            rows = entry.outbox.get(sink, 0) - (before.outbox.get(sink, 0) if before else 0) if entry else 0
            if rows > 0:
                return outbox.path(batch_id, rows)
    return None
