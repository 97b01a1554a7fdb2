"""`audit --recompute`: some closed windows again, from the source, on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from windowpane.core.time_range import TimeRange
from windowpane.core.windows import AlignedSpec
from windowpane.errors import WindowpaneError
from windowpane.runtime.asking.asked import Asked, shown
from windowpane.runtime.auditing.check import Check, skipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "recomputed windows"
_EXPLAINED = ("late", "evicted", "not_closed", "waiting")


def recompute_check(
    asked: Asked, count: int, tell: Callable[[str], None], *, spark: SparkSession | None = None, seed: int = 0
) -> Check:
    """Compare windows, chosen at random, with a batch. Late and evicted rows explain differences."""
    bounds = _chosen(asked, count, seed)
    if not bounds:
        return skipped(TITLE, "no closed window that time alone defines lies within the kept ledger")
    from windowpane.runtime.backfill_check import BackfillCheck  # noqa: PLC0415  # loads PySpark
    from windowpane.runtime.backfilling import Backfill  # noqa: PLC0415
    from windowpane.runtime.pipeline import Pipeline  # noqa: PLC0415

    pipeline = Pipeline(asked.config, (asked.plan,))
    jobs = [Backfill(pipeline, TimeRange(start_us, start_us + 1), tell=tell) for start_us, _ in bounds]
    findings, explained, results = list[str](), 0, 0
    try:
        with jobs[0].session(spark) as session:
            done = [BackfillCheck(job).carry_out(session)[0] for job in jobs]
    except WindowpaneError as failed:
        return skipped(TITLE, failed.message)
    for checked in done:
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
