"""The plans that run on a checkpoint: those of its transforms, and earlier ones that have not ended yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windowpane.checkpoint.evolution import adopted_by
from windowpane.checkpoint.job_claims import Claimed
from windowpane.checkpoint.ledger import Entry
from windowpane.checkpoint.plan_record import PlanRecord
from windowpane.config import PipelineConfig
from windowpane.errors import SqlError, StateError
from windowpane.plan.build import Plan
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.plan.hand_over import cut_plan, ends_us
from windowpane.plan.pipeline import adopted_plan, defined_plan
from windowpane.spark.job_versions import Version


def recorded_plan(config: PipelineConfig, transform: str, record: PlanRecord, types: EventtimeTypes) -> Plan:
    """The plan of a record, made again; StateError if the pipeline no longer has what it reads."""
    if record.definition is None:
        raise StateError("NO_DEFINITION", f"the checkpoint does not say how transform `{transform}` was defined",
                         "run it once as it was")  # fmt: skip
    try:
        return defined_plan(config, transform, record.definition, types)
    except SqlError as error:
        raise StateError(
            "EARLIER_QUERY",
            f"the earlier query of transform `{transform}` has not ended, and can no longer be planned: "
            f"{error.message}",
            "put back the streams, tables and columns that it reads until it has ended",
        ) from error


def versions_of(config: PipelineConfig, claimed: Claimed) -> list[Claimed]:
    """The versions of a transform, the current one last, each with its plan under the names that its state has."""
    earlier = [_earlier(config, claimed, record) for record in claimed.record.earlier]
    plan = adopted_plan(config, claimed.plan, adopted_by(claimed.record))
    last = claimed.checkpoint.ledger.last()
    if claimed.record.from_us is not None and (earlier or not _is_past(plan, claimed.record.from_us, last)):
        plan = cut_plan(plan, claimed.cut)
    else:
        claimed = replace(claimed, record=replace(claimed.record, from_us=None))
    return [*earlier, replace(claimed, plan=plan)]


def _earlier(config: PipelineConfig, claimed: Claimed, record: PlanRecord) -> Claimed:
    plan = recorded_plan(config, claimed.plan.transform, record, claimed.plan.types)
    plan = adopted_plan(config, plan, adopted_by(record))
    shared = claimed.record
    known = replace(
        record, shards=shared.shards, ticks=shared.ticks, generation=shared.generation, job=shared.job,
        steps=shared.steps, sources=shared.sources,
    )  # fmt: skip
    own = replace(claimed, checkpoint=claimed.checkpoint.of_version(record.version), record=known)
    return replace(own, plan=cut_plan(plan, own.cut))


def _is_past(plan: Plan, cut_us: int, last: Entry | None) -> bool:
    """Whether all windows that start before the cut would be closed anyway."""
    reached = None if last is None else last.watermark_us
    return reached is not None and reached >= ends_us(plan, cut_us)


def version_of(claimed: Claimed) -> Version:
    """What the micro-batches of a job have to know of a version."""
    until_us = claimed.record.until_us
    return Version(
        claimed.checkpoint.state_tag,
        claimed.checkpoint.tag,
        claimed.cut,
        ends_us=None if until_us is None else ends_us(claimed.plan, until_us),
        begins=claimed.record.begins,
        leaves=claimed.leaves,
    )


def follows(claims: Sequence[Claimed], claimed: Claimed) -> str | None:
    """The tag of the version before, of the versions of a job."""
    before = [each for each in claims if each.checkpoint.tag == claimed.checkpoint.tag
              and each.checkpoint.version < claimed.checkpoint.version]  # fmt: skip
    return before[-1].checkpoint.state_tag if before else None
