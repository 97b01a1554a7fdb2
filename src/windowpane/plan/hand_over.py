"""A hand-over: the old plan keeps the windows that start before a cut, the new one has those from the cut on."""

from __future__ import annotations

from dataclasses import replace

from windowpane.core.windows import AlignedSpec, Session
from windowpane.core.windows.cut import Cut
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.stages import AnyStage, ChainStage, JoinStage, LeafStage, StageGraph, TimeStage, WindowStage


def check_hand_over(plan: Plan) -> None:
    """PlanError if this plan cannot hand over its windows, or take over those of another."""
    stages = plan.stages
    spec = stages.window.window.spec if stages.window.window else None
    if any(isinstance(stage, (ChainStage, LeafStage, JoinStage)) for stage in stages.stages):
        reason = "it has several windows, or joins streams"
    elif plan.timing.mode == "processing_time":
        reason = "it uses processing time"
    elif spec is not None and spec.triggered:
        reason = "its windows look back across the cut"
    else:
        return
    message = f"the query of transform `{plan.transform}` cannot be handed over: {reason}"
    raise PlanError("HAND_OVER", message, "begin anew: windowpane reset", sql=plan.query.text)


def cut_plan(plan: Plan, cut: Cut) -> Plan:
    """The plan with only the windows within the cut. Windows that are not aligned are cut: it has the rows within."""
    return replace(plan, stages=StageGraph(tuple(_cut(stage, cut, _aligned(plan)) for stage in plan.stages.stages)))


def _aligned(plan: Plan) -> bool:
    window = plan.stages.window.window
    return window is not None and isinstance(window.spec, AlignedSpec)


def _cut(stage: AnyStage, cut: Cut, aligned: bool) -> AnyStage:  # noqa: FBT001  a helper of one caller
    if aligned and isinstance(stage, WindowStage) and stage.window is not None:
        return replace(stage, window=replace(stage.window, cut=cut))
    return replace(stage, cut=cut) if not aligned and isinstance(stage, TimeStage) else stage


def ends_us(plan: Plan, cut_us: int) -> int:
    """When the watermark has come here, the old plan has closed its last window."""
    window = plan.stages.window.window
    if window is None:
        return cut_us
    spec = window.spec
    reach_us = spec.longest_us() if isinstance(spec, AlignedSpec) else spec.gap_us if isinstance(spec, Session) else 0
    return cut_us + reach_us + window.allowed_lateness_us
