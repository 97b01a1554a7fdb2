"""Audits a transform: all checks, in order."""

from __future__ import annotations

from collections.abc import Callable

from windowpane.runtime.asking.asked import Asked
from windowpane.runtime.auditing.check import Check
from windowpane.runtime.auditing.ledger_checks import (
    batches_check,
    chain_check,
    identity_check,
    time_check,
    totals_check,
)
from windowpane.runtime.auditing.offset_checks import offsets_check
from windowpane.runtime.auditing.recomputing import recompute_check
from windowpane.runtime.auditing.report import Audited
from windowpane.runtime.auditing.sink_checks import sink_checks


def audit(asked: Asked, recompute: int = 0, tell: Callable[[str], None] = lambda _: None) -> Audited:
    """`recompute`: how many windows are computed again. `tell`: notes for the user while that runs."""
    checkpoint = asked.checkpoint
    chained, chain = chain_check(checkpoint.ledger)
    checks: list[Check] = [
        chained,
        batches_check(asked.entries, checkpoint.log.last_committed()),
        identity_check(asked.entries),
        totals_check(asked.entries),
        time_check(asked.entries),
        offsets_check(checkpoint.log, asked.entries),
        *sink_checks(asked),
    ]
    if recompute:
        checks.append(recompute_check(asked, recompute, tell))
    return Audited(asked, checks, chain)
