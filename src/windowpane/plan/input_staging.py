"""The stage that reads: what it knows of its streams and of their times follows from the plan below it."""

from __future__ import annotations

from windowpane.plan import physical
from windowpane.plan.eventtime.steps import TimeStep, time_source
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.stages import InputStage
from windowpane.plan.traversal import walk
from windowpane.sql.query import Relation


def input_stage(
    source: PlanNode,
    relation: Relation,
    columns: tuple[InputColumn, ...],
    *,
    where: str | None,
    original: bool,
    aliases: tuple[tuple[str, str], ...],
) -> InputStage:
    """Reads `source` and computes `columns`, over those of `relation`."""
    nodes = list(walk(source))
    chains = [node.steps for node in nodes if isinstance(node, physical.PhysicalEventTime)]
    sources = tuple(dict.fromkeys(time_source(step) for steps in chains for step in steps))
    return InputStage(
        "input",
        (),
        relation=relation,
        source=source,
        streams=tuple(dict.fromkeys(n.stream for n in nodes if isinstance(n, physical.PhysicalDataSource))),
        is_union=any(isinstance(node, physical.PhysicalUnion) for node in nodes),
        columns=columns,
        where=where,
        original=original,
        aliases=aliases,
        timed=bool(chains),
        time_sources=sources or ("processing_time",),
        clock_fallback=len(sources) == 2 and all(_falls_back(steps) for steps in chains),
    )


def _falls_back(steps: tuple[TimeStep, ...]) -> bool:
    """Whether the second and last step is processing time."""
    return [step.origin for step in steps[1:]] == ["processing_time"]
