"""How the rows of a plan are judged, for the sketch of lateness and for `windowpane why` and `tune`."""

from __future__ import annotations

from windowpane.core.lateness import LatenessJudge, RowChance, WindowChance
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.windows import AlignedSpec, Session
from windowpane.plan.node_fields import WindowPlan
from windowpane.plan.stages import JoinStage, LeafStage, StageGraph, TimeStage


def time_stage(stages: StageGraph) -> TimeStage | None:
    """The stage that moves the watermark of the source's rows by their event time; None if several or none do."""
    found = [each for each in stages.of(TimeStage) if each.mode != "processing_time"]
    return found[0] if len(found) == 1 and not isinstance(found[0], LeafStage) else None


def judged_window(stages: StageGraph) -> WindowPlan | None:
    """The window that rows of the source are in: that of a join of streams, or of the first aggregation."""
    joins = stages.of(JoinStage)
    return joins[0].window if joins else stages.first_window.window


def lateness_judge(stages: StageGraph) -> LatenessJudge | None:
    """None if rows have no watermark of their own: in processing time, and where queries share an input."""
    time = time_stage(stages)
    if time is None:
        return None
    if time.ordered or time.late_rule == "row":
        return LatenessJudge(RowChance(), time.lag_us)
    window = judged_window(stages)
    match None if window is None else window.spec:
        case AlignedSpec() as spec:
            assert window is not None
            aligned = AlignedPlan(
                spec, (), window.allowed_lateness_us, closed_until_us=window.closed_until_us, cut=window.cut
            )
            return LatenessJudge(WindowChance(aligned), time.lag_us)
        case Session() as spec:
            return LatenessJudge(RowChance(spec.gap_us), time.lag_us)
        case _:
            return None
