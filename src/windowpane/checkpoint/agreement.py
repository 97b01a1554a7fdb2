"""Checks that the parts of a transform's checkpoint belong to one moment: the ledger and Spark's logs.

A micro-batch is planned in Spark's offset log, entered in the ledger, then committed in Spark's commit log. So the
three may differ by one batch, and in one direction. Anything else is damage, and going on would count rows wrongly.
"""

from __future__ import annotations

from windowpane.checkpoint.ledger import KEPT, Ledger
from windowpane.checkpoint.offset_log import GONE, OffsetLog
from windowpane.checkpoint.plan_record import PlanFile
from windowpane.checkpoint.store import corrupt


def check_agreement(log: OffsetLog, ledger: Ledger, plan: PlanFile) -> None:
    """StateError, with the file that is wrong, unless the ledger and Spark's logs agree."""
    if max(log.last_planned(), log.last_committed(), *ledger.batch_ids()[-1:], -1) < 0:
        log.check_empty()
        return
    if not plan.exists():
        raise corrupt(plan.address(), GONE)
    log.run_id()
    _check_entries(ledger, log.last_committed())
    log.check()


def _check_entries(ledger: Ledger, committed: int) -> None:
    ids = ledger.batch_ids()
    last = ids[-1] if ids else -1
    if last < committed:
        raise corrupt(ledger.address(committed), f"it is missing, although Spark has committed batch {committed}")
    if last > committed + 1:
        reason = f"Spark has committed batch {committed} only, so there cannot be an entry after batch {committed + 1}"
        raise corrupt(ledger.address(last), reason)
    there = set(ids)
    for batch_id in range(max(0, last - KEPT + 1), last):
        if batch_id not in there:
            raise corrupt(ledger.address(batch_id), "it is missing, although later entries exist")
    for batch_id in {committed, last} - {-1}:
        ledger.read(batch_id)
