"""A hand-over: the old plan keeps the windows that start before a cut, the new one has those from the cut on.

Of a chain of windows, the cut divides those of the last one, which gives the results. The windows below have all rows
that these need: those of the old plan until its last window ends, those of the new one from the first window on whose
result is in a window of the new plan. Results of lower windows that reach into no window of their plan count as
`no_window`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windowpane.core.windows import AlignedSpec, Session, Sliding, Tumbling, WindowSpec
from windowpane.core.windows.cut import Cut
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.stages import (
    AnyStage,
    ChainStage,
    JoinStage,
    LeafStage,
    SideStage,
    StageGraph,
    TimeStage,
    WindowStage,
)


def why_not_handed_over(plan: Plan) -> str:
    """Why a plan cannot hand over its windows, or have those of another from a cut on; empty if it can."""
    if any(isinstance(stage, (SideStage, LeafStage, JoinStage)) for stage in plan.stages.stages):
        return "it joins streams, or reads them in several queries"
    if plan.timing.mode == "processing_time":
        return "it uses processing time"
    return "it reads reinjected rows" if plan.reinjects else _why_not_chained(plan.stages)


def _why_not_chained(stages: StageGraph) -> str:
    """Why the windows of a chain cannot be cut."""
    chains = stages.of(ChainStage)
    if chains and not all(each.window and isinstance(each.window.spec, AlignedSpec) for each in stages.windows):
        return (
            "it has a window over the results of another, and not all of its windows are tumbling, hopping or cumulate "
            "windows"
        )
    if any(each.rows.projection.times for each in chains):
        return "it has a window over the results of another with event times from an expression (ON)"
    return ""


def check_hand_over(plan: Plan) -> None:
    """PlanError if this plan cannot hand over its windows, or take over those of another."""
    reason = why_not_handed_over(plan)
    if not reason:
        return
    message = f"the query of transform `{plan.transform}` cannot be handed over: {reason}"
    raise PlanError("HAND_OVER", message, "begin anew: windowpane reset", sql=plan.query.text)


def check_start(plan: Plan) -> None:
    """PlanError if this plan cannot begin at an instant, and is to."""
    reason = why_not_handed_over(plan)
    if plan.start_us is not None and reason:
        message = f"transform `{plan.transform}` cannot begin at an instant: {reason}"
        raise PlanError("START_AT", message, "remove `start_at`", sql=plan.query.text)


def cut_plan(plan: Plan, cut: Cut) -> Plan:
    """The plan with only the windows within the cut. Windows that are not aligned are cut: it has the rows within."""
    last, *below = reversed(plan.stages.windows)
    spec = last.window.spec if last.window else None
    of_windows = cut if isinstance(spec, (AlignedSpec, Sliding)) else None
    if of_windows is not None and below:  # results of the windows below are never late
        of_windows = replace(cut, alone=False)
    of_rows = _with_reach(cut, spec)
    for stage in below:
        of_rows = replace(of_rows, from_us=_first_start_us(stage, of_rows.from_us))
    found = (_cut(stage, of_windows if stage is last else None, of_rows) for stage in plan.stages.stages)
    return replace(plan, stages=StageGraph(tuple(found)))


def looks_back_us(stages: StageGraph) -> int:
    """How far before a cut the rows can be that windows from the cut on need. Tumbling windows start at the cut."""
    last, *below = reversed(stages.windows)
    spec = last.window.spec if last.window else None
    found = spec.lookback_us if isinstance(spec, Sliding) else 0
    for stage in below:
        inner = stage.window.spec if stage.window else None
        if isinstance(inner, AlignedSpec) and (found or not isinstance(inner, Tumbling)):
            found += inner.longest_us()
    return found


def _first_start_us(stage: WindowStage, from_us: int | None) -> int | None:
    """Where the first window starts that ends after an instant."""
    spec = stage.window.spec if stage.window else None
    if from_us is None or not isinstance(spec, AlignedSpec):
        return from_us
    windows = spec.windows()
    starts = windows.bounds(windows.keys_over(np.array([from_us], np.int64)))[0]
    return min([from_us, *(int(start) for start in starts)])


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
    behind_us = sum(each.behind_us for each in plan.stages.of(ChainStage))
    return cut_us + _reach_us(window.spec) + window.allowed_lateness_us + behind_us


def _reach_us(spec: WindowSpec) -> int:
    """How long after its start a window can end."""
    if isinstance(spec, AlignedSpec):
        return spec.longest_us()
    if isinstance(spec, Session):
        return spec.gap_us
    return (spec.lookahead_us or 0) if isinstance(spec, Sliding) else 0
