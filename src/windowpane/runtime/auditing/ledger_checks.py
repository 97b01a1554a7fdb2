"""Checks of the ledger alone: the identity of every batch and of the totals, batches without gap, the hash chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from windowpane.checkpoint.ledger import KEPT, Entry, Ledger
from windowpane.checkpoint.ledger_chain import ChainCheck
from windowpane.outcomes import OUTCOMES
from windowpane.runtime.auditing.check import Check, skipped

_NOT_SUMMED = "buffered"


def batches_check(entries: Sequence[Entry], committed: int) -> Check:
    """The ledger has an entry for each committed batch, as far back as it is kept."""
    ids = [entry.batch_id for entry in entries]
    if not ids:
        return Check("batches", "no micro-batch has run")
    first = max(0, ids[-1] - KEPT + 1)
    findings = [f"batch {batch} has no entry" for batch in sorted(set(range(first, ids[-1] + 1)) - set(ids))]
    if ids[-1] < committed:
        findings.append(f"Spark has committed batch {committed}, and the last entry is of batch {ids[-1]}")
    return Check("batches", f"batches {ids[0]} to {ids[-1]}, {len(ids):,} entries", findings)


def identity_check(entries: Sequence[Entry]) -> Check:
    """Rows in = the sum of all outcomes + buffered after - buffered before, in every batch and stage."""
    findings, checked = list[str](), 0
    for before, entry in _pairs(entries):
        accounts = {"": (entry.accounting, before.accounting if before else None)}
        accounts |= {name: (account, before.stages.get(name) if before else None)
                     for name, account in entry.stages.items()}  # fmt: skip
        for stage, (account, earlier) in accounts.items():
            held = (earlier or {}).get(_NOT_SUMMED, 0)
            if before is None and entry.batch_id > 0:
                continue  # what was buffered before the oldest entry is not known
            checked += 1
            findings += _identity(entry.batch_id, stage, account, held)
    return Check("identity", f"read = aggregated + filtered + late + … in {checked:,} accounts", findings)


def _identity(batch_id: int, stage: str, account: Mapping[str, int], held: int) -> Iterator[str]:
    placed = sum(account.get(outcome.name, 0) for outcome in OUTCOMES)
    given = account.get("in_", 0)
    if given != placed + account.get(_NOT_SUMMED, 0) - held:
        where = f"batch {batch_id}{f', {stage}' if stage else ''}"
        yield (
            f"{where}: {given:,} rows in, but {placed:,} with an outcome, {account.get(_NOT_SUMMED, 0):,} buffered "
            f"after and {held:,} before"
        )


def totals_check(entries: Sequence[Entry]) -> Check:
    """Totals grow by what each batch counts, and so do the sums of results and side rows."""
    findings: list[str] = []
    for before, entry in _pairs(entries):
        if before is None and entry.batch_id > 0:
            continue
        findings += _grown(entry.batch_id, "totals", before.totals if before else {}, entry.accounting, entry.totals)
        if entry.sums and (before is None or before.sums):
            own = {
                "side": entry.side,
                "dropped": entry.dropped,
                "rows": {"results": entry.results, "refused": entry.refused},
            }
            for name, counts in own.items():
                earlier = before.sums.get(name, {}) if before else {}
                findings += _grown(entry.batch_id, f"sums of {name}", earlier, counts, entry.sums.get(name, {}))
    return Check("totals", f"the totals of {len(entries):,} entries", findings)


def _grown(
    batch_id: int, what: str, before: Mapping[str, int], counts: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[str]:
    for name, count in counts.items():
        wanted = count if name == _NOT_SUMMED else before.get(name, 0) + count
        if after.get(name, 0) != wanted:
            yield (
                f"batch {batch_id}: the {what} have {after.get(name, 0):,} {name.rstrip('_')}, and {wanted:,} follow "
                "from the batches"
            )


def time_check(entries: Sequence[Entry]) -> Check:
    """The watermark never moves back, and neither does the largest event time of a partition."""
    findings = []
    for before, entry in pairwise(entries):
        if before.watermark_us is not None and (entry.watermark_us is None or entry.watermark_us < before.watermark_us):
            findings.append(f"batch {entry.batch_id}: the watermark has moved back")
        findings += [f"batch {entry.batch_id}: the largest event time of {name} has moved back"
                     for name, us in before.maxima.items() if entry.maxima.get(name, us) < us]  # fmt: skip
    return Check("time", "the watermark and the largest event times only grow", findings)


def chain_check(ledger: Ledger) -> tuple[Check, ChainCheck]:
    """Every entry has the digest that was written with it, and the next one names it."""
    found = ledger.check_chain()
    findings = [f"batch {batch}: {what} ({ledger.address(batch)})" for batch, what in found.findings]
    if found.first is None:
        why = "earlier versions wrote no digests" if found.unchained else "no micro-batch has run"
        return skipped("chain", why), found
    older = f"; {found.unchained:,} older entries have no digest" if found.unchained else ""
    return Check("chain", f"batches {found.first} to {found.last}{older}", findings), found


def repeated(values: Sequence[object]) -> list[object]:
    """What is there more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _pairs(entries: Sequence[Entry]) -> Iterator[tuple[Entry | None, Entry]]:
    before: Entry | None = None
    for entry in entries:
        yield (before if before is not None and before.batch_id == entry.batch_id - 1 else None), entry
        before = entry
