"""Where a hand-over cuts time: ahead of every row read so far, at the start of a window in both plans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windowpane.core.windows import AlignedSpec
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.shape import PlanShape, shape_of
from windowpane.sql import Catalog, bind

TRIES = 2_000
"""Starts of windows that are compared. With a day and a week, the sixth is common to both at the latest."""
_SAMPLES = 16


def cut_between_us(old: PlanShape, new: PlanShape, read_us: int) -> int | None:
    """Where a hand-over cuts time, after rows up to `read_us` have been read; None if there is no such instant.

    The new plan has read none of these rows, so its windows may not reach back to them.
    """
    return common_cut_us([*old.spans, *new.spans], read_us + new.looks_back_us)


def first_start_us(plan: Plan) -> int | None:
    """Where the first window of a plan with `start_at` starts; None if the plan has none."""
    if plan.start_us is None:
        return None
    found = common_cut_us(shape_of(plan).spans, plan.start_us - 1)
    if found is None:
        raise PlanError("START_AT", f"the windows of transform `{plan.transform}` never start at the same instant",
                        "remove `start_at`", sql=plan.query.text)  # fmt: skip
    return found


def common_cut_us(clauses: Sequence[str], after_us: int) -> int | None:
    """The first instant found after `after_us` at which windows of all these clauses start; None if none was found.

    >>> common_cut_us(["TUMBLING (SIZE '10s')", "TUMBLING (SIZE '15s')"], 31_000_000)
    60000000
    """
    specs = [spec for clause in dict.fromkeys(clauses) if isinstance(spec := _spec(clause), AlignedSpec)]
    cut_us, agreed = after_us + 1, 0
    for number in range(TRIES if specs else 0):
        found_us = _next_start_us(specs[number % len(specs)], cut_us)
        agreed = agreed + 1 if found_us == cut_us else 1
        cut_us = found_us
        if agreed >= len(specs):
            return cut_us
    return None if specs else cut_us


def _spec(clause: str) -> object:
    window = bind(f"SELECT count(*) AS n FROM s WINDOW {clause}", Catalog({"s": None})).window
    return window.spec if window else None


def _next_start_us(spec: AlignedSpec, from_us: int) -> int:
    """A start of a window at `from_us` or after."""
    reach_us = 2 * spec.longest_us()
    while True:
        windows = spec.windows()
        instants = np.unique(from_us + np.arange(_SAMPLES + 1, dtype=np.int64) * reach_us // _SAMPLES)
        starts = windows.bounds(windows.keys_over(instants))[0]
        starts = starts[starts >= from_us]
        if len(starts):
            return int(starts.min())
        reach_us *= 2
