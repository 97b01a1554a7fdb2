"""Which plans can keep the accumulators of closed windows, so that late rows can be folded in afterwards."""

from __future__ import annotations

from windowpane.core.windows import AlignedSpec
from windowpane.plan.build import Plan
from windowpane.plan.lateness import time_stage
from windowpane.plan.stages import DedupeStage, JoinStage


def unrepairable(plan: Plan) -> str | None:
    """Why closed windows of a plan cannot be kept; None if they can."""
    stages = plan.stages
    if time_stage(stages) is None:
        return "its rows have no event time of their own"
    if stages.of(JoinStage):
        return "it joins streams, and a row has no result without its partners"
    if stages.of(DedupeStage):
        return "it has `dedupe`, which has forgotten the keys of old rows"
    if len(stages.windows) > 1:
        return "its windows are the input of others, which have closed, too"
    window = stages.window
    if window.window is None or not isinstance(window.window.spec, AlignedSpec):
        kind = "no window" if window.window is None else f"{window.window.spec.kind} windows"
        return f"it has {kind}, which time alone does not define"
    if window.aggregation is None:
        return "it has no aggregates, only rows"
    return None if window.fused else "its aggregates keep all rows of a window"
