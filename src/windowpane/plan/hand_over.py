"""A hand-over: the old plan keeps the windows that start before a cut, the new one has those from the cut on.

Of a chain of windows, the cut divides those of the last one, which gives the results. The windows below have all rows
that these need: those of the old plan until its last window ends, those of the new one from the first window on whose
result is in a window of the new plan. Results of lower windows that reach into no window of their plan count as
`no_window`.

A join within windows is cut as its windows are. The results of an interval join have the time of the later row, and the
plan on whose side of the cut that is gives them. Both plans take the rows near the cut that may be partners.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windowpane.core.windows import AlignedSpec, Session, Sliding, Tumbling, WindowSpec
from windowpane.core.windows.cut import Cut
from windowpane.errors import PlanError
from windowpane.plan.build import Plan
from windowpane.plan.reach import reach_of
from windowpane.plan.stages import (
    AnyStage,
    ChainStage,
    JoinStage,
    LeafStage,
    MeetingStage,
    SideStage,
    StageGraph,
    TimeStage,
    WindowStage,
)


def why_not_handed_over(plan: Plan) -> str:
    """Why a plan cannot hand over its windows, or have those of another from a cut on; empty if it can."""
    return "it reads reinjected rows" if plan.reinjects else _why_not_chained(plan.stages)


def _why_not_chained(stages: StageGraph) -> str:
    """Why the windows of a chain cannot be cut."""
    chains = stages.of(ChainStage)
    if chains and not all(_follows_from_time(stages, each) for each in stages.windows):
        return (
            "it has a window over the results of another, and not all of its windows are tumbling, hopping or cumulate "
            "windows"
        )
    # The time of a side of an interval join is that of one of its rows, which is within the reach of its own join.
    united = {name for each in stages.of(MeetingStage) if each.ordered is not None for name in each.inputs}
    timed = [each for each in chains if not isinstance(each, SideStage) or each.name in united]
    if any(each.rows.projection.times for each in timed):
        return "it has a window over the results of another with event times from an expression (ON)"
    return ""


def _follows_from_time(stages: StageGraph, stage: WindowStage) -> bool:
    """Whether times alone say which rows the results of a stage are made of."""
    if stage.window is None:
        return _interval_us(stages, stage) is not None
    return isinstance(stage.window.spec, AlignedSpec)


def _interval_us(stages: StageGraph, stage: WindowStage) -> int | None:
    """How far partners can be apart if the stage gives the rows of an interval join; else None."""
    below = stages.by_name[stage.inputs[0]]
    return max(map(abs, below.interval_us)) if isinstance(below, JoinStage) and below.interval_us else None


def check_hand_over(plan: Plan) -> None:
    """PlanError if this plan cannot hand over its windows, or take over those of another."""
    reason = why_not_handed_over(plan)
    if not reason:
        return
    message = f"the query of transform `{plan.transform}` cannot be handed over: {reason}"
    raise PlanError("HAND_OVER", message, "begin anew: windowpane reset", sql=plan.query.text)


def check_start(plan: Plan) -> None:
    """PlanError if this plan cannot begin at an instant, and is to."""
    # Of processing time, nothing says whether the job has read rows before that instant in the same window.
    by_clock = plan.timing.mode == "processing_time"
    reason = "it uses processing time" if by_clock else why_not_handed_over(plan)
    if plan.start_us is not None and reason:
        message = f"transform `{plan.transform}` cannot begin at an instant: {reason}"
        raise PlanError("START_AT", message, "remove `start_at`", sql=plan.query.text)


def cut_plan(plan: Plan, cut: Cut) -> Plan:
    """The plan with only the windows within the cut. Windows that are not aligned are cut: it has the rows within."""
    last, *below = reversed(plan.stages.windows)
    spec = last.window.spec if last.window else None
    joined = _interval_us(plan.stages, last) is not None
    of_windows = cut if isinstance(spec, (AlignedSpec, Sliding)) or joined else None
    if of_windows is not None and below:  # results of the windows below are never late
        of_windows = replace(cut, alone=False)
    of_rows = _rows_cut(plan.stages, cut)
    own = (last.name, *last.inputs)
    found = (_cut(stage, of_windows if stage.name in own else None, of_rows) for stage in plan.stages.stages)
    return replace(plan, stages=StageGraph(tuple(found)))


def _rows_cut(stages: StageGraph, cut: Cut) -> Cut:
    """The rows that the results within a cut are made of."""
    last, *below = reversed(stages.windows)
    if _joins_rows_apart(stages):
        reach = reach_of(stages)
        from_us = None if cut.from_us is None else cut.from_us - reach.before_us
        return replace(cut, from_us=from_us, until_us=None if cut.until_us is None else cut.until_us + reach.after_us)
    of_rows = _with_reach(cut, last.window.spec if last.window else None)
    for stage in below:
        of_rows = replace(of_rows, from_us=_first_start_us(stage, of_rows.from_us))
    return of_rows


def _joins_rows_apart(stages: StageGraph) -> bool:
    """Whether results are made of rows of several windows, or of pairs of rows that are in none."""
    return bool(stages.of(LeafStage)) or any(each.interval_us is not None for each in stages.of(JoinStage))


def looks_back_us(stages: StageGraph) -> int:
    """How far before a cut the rows can be that windows from the cut on need. Tumbling windows start at the cut."""
    if _joins_rows_apart(stages):
        return reach_of(stages).before_us
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
    if isinstance(stage, JoinStage):
        return replace(stage, cut=of_windows)
    return replace(stage, cut=of_rows) if isinstance(stage, TimeStage) else stage


def ends_us(plan: Plan, cut_us: int) -> int:
    """When the watermark has come here, the old plan has closed its last window."""
    window = plan.stages.window.window
    behind_us = sum(each.behind_us for each in plan.stages.of(ChainStage))
    if window is None:
        return cut_us + (_interval_us(plan.stages, plan.stages.window) or 0) + behind_us
    return cut_us + _reach_us(window.spec) + window.allowed_lateness_us + behind_us


def _reach_us(spec: WindowSpec) -> int:
    """How long after its start a window can end."""
    if isinstance(spec, AlignedSpec):
        return spec.longest_us()
    if isinstance(spec, Session):
        return spec.gap_us
    return (spec.lookahead_us or 0) if isinstance(spec, Sliding) else 0
