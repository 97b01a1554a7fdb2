"""Plans a bound query with its settings: logical nodes, rules, physical nodes, stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windowpane.config import Options, Stream, Transform
from windowpane.errors import PlanError
from windowpane.plan import logical
from windowpane.plan.context import PlanContext, chained
from windowpane.plan.eventtime.resolution import resolve_chains
from windowpane.plan.eventtime.steps import PROCESSING_TIME, TimeChains
from windowpane.plan.eventtime.timing import Timing, resolve_result_timing, resolve_timing
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.join_intervals import with_interval
from windowpane.plan.lower import lower
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import SideRoute
from windowpane.plan.optimizer import AppliedRule, optimize_logical, optimize_physical
from windowpane.plan.scan import ColumnarScan, resolve_scan
from windowpane.plan.settings import (
    check_max_groups,
    check_reinjection,
    dedupe_keys,
    dedupe_notes,
    may_lack_partner,
    side_notes,
)
from windowpane.plan.stages import StageGraph
from windowpane.plan.staging import PlannedQuery, stages_of
from windowpane.plan.stream_joins import Conditions, check_stream_join, pushed, split_conditions
from windowpane.plan.traversal import over_results
from windowpane.sql import SessionFacts
from windowpane.sql.query import BoundQuery, GroupKey, StaticJoin, StreamJoin, StreamRef, UnionBranch


@dataclass(frozen=True)
class Plan:
    """A planned transform. `rules` are those that changed the plan; `notes` name settings that have no effect on it."""

    transform: str
    query: BoundQuery
    timing: Timing
    logical: PlanNode
    optimized: PlanNode
    physical: PlanNode
    stages: StageGraph
    """The physical plan for everything that runs it."""
    rules: tuple[AppliedRule, ...]
    notes: tuple[str, ...]
    types: EventtimeTypes = field(repr=False)
    """The event-time types that its steps refer to."""
    scan: ColumnarScan | None = None
    """How workers read the stream without the JVM; None if Spark has to read it."""

    @property
    def plan_id(self) -> str:
        return self.query.plan_id

    @property
    def ticks_for(self) -> tuple[str, ...]:
        """What needs processing time to go on when no row comes."""
        return self.stages.ticks_for

    @property
    def reinjects(self) -> bool:
        """Whether side rows of some kind are read again."""
        return self.stages.output.reinjects


def plan_query(
    bound: BoundQuery,
    streams: Mapping[str, Stream],
    options: Options | None = None,
    transform: Transform | None = None,
    registry: EventtimeTypes = EVENTTIME_TYPES,
    *,
    name: str = "query",
    session: SessionFacts | None = None,
) -> Plan:
    """Plan one query; PlanError where query and configuration do not fit together.

    `streams` are the configured streams by name; `registry` holds the types of event time that they may declare.
    """
    options = options or Options()
    types = registry.extended(options.eventtime.types)
    context = PlanContext(bound, streams, options=options, transform=transform or Transform(), types=types, name=name)
    check_max_groups(context)
    check_reinjection(context)
    contexts = [with_interval(each) for each in chained(context)]
    for each in contexts:
        check_stream_join(each)
    queries = [_plan_level(contexts[0], resolve_timing(contexts[0]))]
    for each in contexts[1:]:
        queries.append(_plan_outer(each, queries[-1]))
    first, last = queries[0], queries[-1]
    try:
        stages = stages_of([PlannedQuery(each.physical, each.context) for each in queries], session or SessionFacts())
    except PlanError as error:
        error.sql = error.sql or bound.text
        raise
    scan, scan_notes = resolve_scan(stages, streams, session)
    return Plan(
        transform=name,
        query=bound,
        timing=first.timing,
        logical=last.logical,
        optimized=last.optimized,
        physical=last.physical,
        stages=stages,
        rules=tuple(dict.fromkeys(rule for each in queries for rule in each.rules)),
        notes=first.timing.notes + dedupe_notes(contexts[0]) + side_notes(context, first.timing) + scan_notes,
        types=types,
        scan=scan,
    )


@dataclass(frozen=True)
class _Level:
    """A query of those that read each other, planned."""

    context: PlanContext
    timing: Timing
    logical: PlanNode
    optimized: PlanNode
    physical: PlanNode
    rules: tuple[AppliedRule, ...]


def _plan_level(context: PlanContext, timing: Timing) -> _Level:
    """Plan a query as if what it reads were a source."""
    on = context.bound.window.on if context.bound.window else None
    timed = timing.mode == "event_time" if timing.behind_us is None else on is not None
    untimed = PROCESSING_TIME if timing.behind_us is None else TimeChains()
    chains = resolve_chains(context) if timed else untimed
    built = _Builder(context, timing, chains).sink()
    optimized, logical_rules = optimize_logical(built)
    physical, physical_rules = optimize_physical(lower(optimized, timing, context.bound.relation))
    return _Level(context, timing, built, optimized, physical, logical_rules + physical_rules)


def _plan_outer(context: PlanContext, below: _Level) -> _Level:
    """Plan a query over the results of another, and put that one's plan below it."""
    planned = _plan_level(context, resolve_result_timing(context, below.timing, below.context.bound))
    return replace(
        planned,
        logical=over_results(planned.logical, below.logical),
        optimized=over_results(planned.optimized, below.optimized),
        physical=over_results(planned.physical, below.physical),
    )


@dataclass(frozen=True)
class _Builder:
    """Logical nodes from the sink down to the streams."""

    context: PlanContext
    timing: Timing
    chains: TimeChains

    def sink(self) -> logical.LogicalSink:
        transform = self.context.transform
        routes = tuple(
            SideRoute(
                kind,
                route.sink,
                include_original=route.include_original,
                rate_limit=route.rate_limit,
                max_reinjections=route.max_reinjections,
                then=route.then,
            )
            for kind, route in transform.side_output.routes().items()
            if kind != "unmatched" or may_lack_partner(self.context.bound.source.relation)
        )
        return logical.LogicalSink(self.result(), transform.sinks, routes)

    def result(self) -> PlanNode:
        node = self.windowed()
        for step in self.context.bound.steps:
            node = logical.LogicalResultStep(node, step)
        return logical.LogicalProjection(node, self.context.bound.outputs)

    def windowed(self) -> PlanNode:
        bound = self.context.bound
        rows = self.rows()
        if bound.window is None:
            return logical.LogicalRows(rows, bound.carried)
        window = logical.LogicalWindow(rows, bound.window, bound.carried, self.timing.allowed_lateness_us)
        if bound.kind == "rows":
            return window
        max_groups = self.context.transform.limits.max_groups
        return logical.LogicalAggregation(window, bound.keys, bound.aggregates, bound.emit, max_groups)

    def rows(self) -> PlanNode:
        bound, transform = self.context.bound, self.context.transform
        node, join = self.relation(), bound.relation.stream_join
        where = bound.where if join is None else self.conditions(join).where
        if where is not None:
            node = logical.LogicalFilter(node, where)
        if transform.dedupe is not None:
            node = logical.LogicalDedupe(node, dedupe_keys(self.context), transform.dedupe.within_us)
        return node

    def relation(self) -> PlanNode:
        relation = self.context.bound.relation
        if relation.query is not None:
            return self._timed(logical.LogicalResults(relation.columns))
        sources = [self.source(position, ref) for position, ref in enumerate(self.context.refs())]
        if relation.stream_join is not None:
            node: PlanNode = self.stream_join(relation.stream_join, sources)
        elif relation.branches:
            branches = zip(sources, relation.branches, strict=True)
            node = logical.LogicalUnion(
                tuple(logical.LogicalBranch(source, branch.projection, branch.where) for source, branch in branches)
            )
        else:
            node = sources[0]
        for join in relation.joins:
            if isinstance(join, StaticJoin):
                node = logical.LogicalJoin(node, join, relation)
            else:
                node = logical.LogicalGenerate(node, join)
        return self._timed(node)

    def _timed(self, node: PlanNode) -> PlanNode:
        return logical.LogicalEventTime(node, self.timing.mode, self.chains.top) if self.chains.top else node

    def stream_join(self, join: StreamJoin, sources: Sequence[PlanNode]) -> PlanNode:
        """Both streams, without the rows for which a condition on their side alone does not hold."""
        conditions = self.conditions(join)
        sides = zip(sources, self.context.bound.relation.branches, (conditions.left, conditions.right), strict=True)
        branches = tuple(
            logical.LogicalBranch(_with_tables(source, branch), branch.projection, pushed(branch, own))
            for source, branch, own in sides
        )
        on = tuple(GroupKey(f"_on{number}", each.text, each) for number, each in enumerate(conditions.on))
        return logical.LogicalStreamJoin(branches, join, on)

    def conditions(self, join: StreamJoin) -> Conditions:
        return split_conditions(join, self.context.bound.where)

    def source(self, position: int, ref: StreamRef) -> PlanNode:
        stream = self.context.streams.get(ref.name)
        columns = ref.columns or None
        reading = 1 + sum(other.name == ref.name for other in self.context.refs()[:position])
        source = logical.LogicalSource(ref.name, ref.alias, stream.format if stream else None, columns, reading)
        if not self.chains.per_stream:
            return source
        return logical.LogicalEventTime(source, self.timing.mode, self.chains.per_stream[position])


def _with_tables(source: PlanNode, branch: UnionBranch) -> PlanNode:
    """A stream with the static tables that its branch joins to it."""
    if branch.joined is not None:
        for join in branch.joined.tables:
            source = logical.LogicalJoin(source, join, branch.joined)
    return source
