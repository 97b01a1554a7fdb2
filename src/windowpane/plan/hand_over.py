"""A hand-over: the old plan keeps the windows that start before a cut, the new one has those from the cut on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windowpane.core.windows import AlignedSpec, Session, Sliding, WindowSpec
from windowpane.core.windows.cut import Cut
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.stages import AnyStage, ChainStage, JoinStage, LeafStage, StageGraph, TimeStage, WindowStage


def why_not_handed_over(plan: Plan) -> str:
    """Why a plan cannot hand over its windows, or have those of another from a cut on; empty if it can."""
    if any(isinstance(stage, (ChainStage, LeafStage, JoinStage)) for stage in plan.stages.stages):
        return "it has several windows, or joins streams"
    if plan.timing.mode == "processing_time":
        return "it uses processing time"
    return "it reads reinjected rows" if plan.reinjects else ""


def check_hand_over(plan: Plan) -> None:
    """PlanError if this plan cannot hand over its windows, or take over those of another."""
    reason = why_not_handed_over(plan)
    if not reason:
        return
    message = f"the query of transform `{plan.transform}` cannot be handed over: {reason}"
    raise PlanError("HAND_OVER", message, "begin anew: windowpane reset", sql=plan.query.text)


def cut_plan(plan: Plan, cut: Cut) -> Plan:
    """The plan with only the windows within the cut. Windows that are not aligned are cut: it has the rows within."""
    window = plan.stages.window.window
    spec = window.spec if window else None
    of_windows = cut if isinstance(spec, (AlignedSpec, Sliding)) else None
    of_rows = _with_reach(cut, spec)
    return replace(plan, stages=StageGraph(tuple(_cut(stage, of_windows, of_rows) for stage in plan.stages.stages)))


def _with_reach(cut: Cut, spec: WindowSpec | None) -> Cut:
    """The rows that the windows within a cut have. Those of overlapping and sliding windows reach across it."""
    if isinstance(spec, AlignedSpec):
        return cut if cut.until_us is None else replace(cut, until_us=_last_end_us(spec, cut.until_us))
    if not isinstance(spec, Sliding):
        return cut
    from_us = None if cut.from_us is None else cut.from_us - spec.lookback_us
    until_us = None if cut.until_us is None else cut.until_us + (spec.lookahead_us or 0)
    return replace(cut, from_us=from_us, until_us=until_us)


def _last_end_us(spec: AlignedSpec, until_us: int) -> int:
    """Where the last of the windows ends that start before an instant."""
    windows = spec.windows()
    ends = windows.bounds(windows.keys_over(np.array([until_us - 1], np.int64)))[1]
    return max([until_us, *(int(end) for end in ends)])


def _cut(stage: AnyStage, of_windows: Cut | None, of_rows: Cut | None) -> AnyStage:
    if isinstance(stage, WindowStage) and stage.window is not None:
        return replace(stage, window=replace(stage.window, cut=of_windows))
    return replace(stage, cut=of_rows) if isinstance(stage, TimeStage) else stage


def ends_us(plan: Plan, cut_us: int) -> int:
    """When the watermark has come here, the old plan has closed its last window."""
    window = plan.stages.window.window
    if window is None:
        return cut_us
    return cut_us + _reach_us(window.spec) + window.allowed_lateness_us


def _reach_us(spec: WindowSpec) -> int:
    """How long after its start a window can end."""
    if isinstance(spec, AlignedSpec):
        return spec.longest_us()
    if isinstance(spec, Session):
        return spec.gap_us
    return (spec.lookahead_us or 0) if isinstance(spec, Sliding) else 0
