"""`audit --recompute`: some closed windows again, from the source, on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from windowpane.core.time_range import TimeRange
from windowpane.core.windows import AlignedSpec
from windowpane.errors import WindowpaneError
from windowpane.runtime.asking.asked import Asked, shown
from windowpane.runtime.auditing.check import Check, skipped

TITLE = "recomputed windows"
_EXPLAINED = ("late", "evicted", "not_closed", "waiting")


def recompute_check(asked: Asked, count: int, tell: Callable[[str], None], *, seed: int = 0) -> Check:
    """Compare windows, chosen at random, with a batch. Late and evicted rows explain differences."""
    bounds = _chosen(asked, count, seed)
    if not bounds:
        return skipped(TITLE, "no closed window that time alone defines lies within the kept ledger")
    from windowpane.runtime.backfill_check import BackfillCheck  # noqa: PLC0415  # starts Spark
    from windowpane.runtime.backfilling import Backfill  # noqa: PLC0415
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415

    findings, explained, results = list[str](), 0, 0
    pipeline = Pipeline(asked.config, (asked.plan,))
    for start_us, end_us in bounds:
        tell(f"{asked.name}: window {shown(start_us)} to {shown(end_us)} again …")
        job = Backfill(pipeline, TimeRange(start_us, start_us + 1), tell=tell)
        try:
            (checked,) = BackfillCheck(job).carry_out()
        except WindowpaneError as failed:
            return skipped(TITLE, f"{failed.message}")
        results += checked.results
        for each in checked.differences:
            if each.reason in _EXPLAINED:
                explained += 1
            else:
                findings.append(f"{each.difference.kind} {dict(each.difference.key)}: {each.evidence}")
    shown_windows = ", ".join(shown(start_us) for start_us, _ in bounds)
    told = f"; {explained:,} differences that late or evicted rows explain" if explained else ""
    return Check(TITLE, f"{len(bounds)} windows from {shown_windows}: {results:,} results{told}", findings)


def _chosen(asked: Asked, count: int, seed: int) -> list[tuple[int, int]]:
    spec = asked.window.spec if asked.window else None
    known = [entry.watermark_us for entry in asked.entries if entry.watermark_us is not None]
    if not isinstance(spec, AlignedSpec) or asked.time is None or len(known) < 2:
        return []
    windows = spec.windows()
    instants = np.unique(np.array(known, np.int64) - asked.lateness_us)
    keys = windows.open_for(instants)[1]
    starts, ends = windows.bounds(np.unique(keys))
    closed = [(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if asked.is_closed(end)]
    return sorted(random.Random(seed).sample(closed, min(count, len(closed))))  # noqa: S311  # a sample, no secret
