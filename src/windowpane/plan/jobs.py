"""Which transforms of a pipeline share a job: one Spark query that reads their streams once and runs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from windowpane.config import PipelineConfig
from windowpane.plan.build import Plan
from windowpane.plan.shared_folds import FoldSharing, share_folds

_NOT_SHARED = "it has `share = false`"
_ONLY_ONE = "no other transform reads the same streams"


@dataclass(frozen=True)
class PlannedJob:
    """Transforms that run together."""

    name: str
    plans: tuple[Plan, ...]
    alone_because: str | None = None
    """Why it has only one transform, if a pipeline has several."""

    def describe(self, transform: str) -> str:
        """For EXPLAIN, from the view of one of its transforms."""
        others = [f"`{plan.transform}`" for plan in self.plans if plan.transform != transform]
        if not others:
            return f"a job of its own: {self.alone_because}"
        streams = ", ".join(f"`{name}`" for name in self.plans[0].stages.input.streams)
        read = f"`{self.name}`, with {', '.join(others)}: {streams} is read and decoded once for all of them"
        return f"{read}; {self._sharing.describe(transform)}"

    @cached_property
    def _sharing(self) -> FoldSharing:
        return share_folds({plan.transform: plan for plan in self.plans})


def plan_jobs(config: PipelineConfig, plans: Sequence[Plan]) -> tuple[PlannedJob, ...]:
    """The jobs of a pipeline, in the order of their first transforms; ConfigError for a group that is not possible."""
    members: dict[object, list[Plan]] = {}
    reasons: dict[str, str] = {}
    for plan in plans:
        settings = config.transforms[plan.transform]
        reason = _NOT_SHARED if not settings.share else _why_alone(plan)
        if reason is not None and settings.group is not None:
            raise _impossible(config, plan, reason)
        reasons[plan.transform] = reason or _ONLY_ONE
        key = plan.transform if reason else (settings.group, () if settings.group else _streams(plan))
        members.setdefault(key, []).append(plan)
    for together in members.values():
        _check_group(config, together)
    return tuple(_job(config, together, reasons) for together in members.values())


def _job(config: PipelineConfig, plans: Sequence[Plan], reasons: dict[str, str]) -> PlannedJob:
    first = plans[0]
    name = config.transforms[first.transform].group or first.stages.input.streams[0]
    return PlannedJob(name, tuple(plans), reasons[first.transform] if len(plans) == 1 else None)


def _why_alone(plan: Plan) -> str | None:
    """Why a transform cannot share a job; None if it can."""
    if plan.reinjects:
        return "it reads reinjected rows, which no other transform reads"
    if plan.scan is None:
        return "its rows are decoded by Spark, and only rows that workers decode are shared"
    return None


def _streams(plan: Plan) -> frozenset[tuple[str, str]]:
    assert plan.scan is not None, "others share nothing"
    return frozenset((each.stream, each.partitions_of) for each in plan.scan.streams)


def _check_group(config: PipelineConfig, plans: Sequence[Plan]) -> None:
    for plan in plans[1:]:
        if _streams(plan) != _streams(plans[0]):
            other = plans[0].transform
            raise _impossible(config, plan, f"it reads other streams than `{other}`, which has the same `group`")


def _impossible(config: PipelineConfig, plan: Plan, reason: str) -> Exception:
    return config.error(
        "GROUP_IMPOSSIBLE",
        f"transform `{plan.transform}` cannot share a job: {reason}",
        "remove `group`: the transform is a job of its own then",
        key=f"transforms.{plan.transform}.group",
    )
