"""Plans a bound query with its settings: logical nodes, rules, physical nodes, stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windowpane.config import Options, Stream, Transform
from windowpane.errors import PlanError
from windowpane.plan import logical
from windowpane.plan.context import PlanContext, reading, without_limits
from windowpane.plan.definitions import Definition
from windowpane.plan.eventtime.resolution import at_declared_time, resolve_chains, time_by_sql
from windowpane.plan.eventtime.steps import PROCESSING_TIME, TimeChains
from windowpane.plan.eventtime.timing import (
    Timing,
    check_times,
    resolve_result_timing,
    resolve_timing,
    results_behind_us,
)
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.join_intervals import with_interval
from windowpane.plan.join_pushdown import with_conditions_below
from windowpane.plan.lower import lower
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import SideRoute
from windowpane.plan.optimizer import AppliedRule, optimize_logical, optimize_physical
from windowpane.plan.physical import PhysicalResults
from windowpane.plan.read_transforms import check_read_transforms, with_owners_settings
from windowpane.plan.scan import ColumnarScan, resolve_scan
from windowpane.plan.settings import (
    check_dedupe,
    check_max_groups,
    check_reinjection,
    dedupe_keys,
    dedupe_notes,
    deduplicates,
    idle_notes,
    may_lack_partner,
    side_notes,
)
from windowpane.plan.stages import StageGraph
from windowpane.plan.staging import PlannedQuery, stages_of
from windowpane.plan.stream_joins import Conditions, check_stream_join, pushed, split_conditions
from windowpane.plan.traversal import over_results, walk
from windowpane.sql import SessionFacts
from windowpane.sql.query import BoundQuery, Column, GroupKey, StaticJoin, StreamJoin, StreamRef, UnionBranch


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
    start_us: int | None = None
    """It has the windows that start here or after."""
    keep_closed_us: int | None = None
    """How long the accumulators of closed windows are kept, for repairs; None: not at all."""
    definition: Definition | None = field(default=None, repr=False)
    """What it was planned from; None if that was not a pipeline.toml."""

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
    others: Mapping[str, Transform] | None = None,
) -> Plan:
    """Plan one query; PlanError where query and configuration do not fit together.

    `streams` are the configured streams by name; `registry` holds the types of event time that they may declare;
    `others` are the transforms that the query can read by name.
    """
    options = options or Options()
    types = registry.extended(options.eventtime.types)
    context = PlanContext(
        bound,
        streams,
        options=options,
        transform=transform or Transform(),
        types=types,
        name=name,
        others=others or {},
    )
    check_read_transforms(context)
    check_max_groups(context)
    check_reinjection(context)
    root = _plan_tree(context)
    levels = root.levels()
    check_dedupe(context, [each.context for each in levels])
    check_times(levels[0].context, [each.timing for each in levels if each.context.refs()])
    try:
        stages = stages_of(root.planned(), session or SessionFacts())
    except PlanError as error:
        error.sql = error.sql or bound.text
        raise
    first, last = levels[0], root
    scan, scan_notes = resolve_scan(stages, streams, session)
    return Plan(
        transform=name,
        query=bound,
        timing=first.timing,
        logical=last.logical,
        optimized=last.optimized,
        physical=last.physical,
        stages=stages,
        rules=tuple(dict.fromkeys(rule for each in levels for rule in each.rules)),
        notes=first.timing.notes
        + dedupe_notes(first.context)
        + side_notes(context, first.timing)
        + idle_notes(context, first.timing)
        + scan_notes,
        types=types,
        scan=scan,
        start_us=context.transform.start_at_us,
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
    below: tuple[_Level, ...] = ()
    """The queries whose results it reads."""

    def levels(self) -> list[_Level]:
        """All of them, those that are read before those that read them."""
        return [*(level for each in self.below for level in each.levels()), self]

    def planned(self) -> PlannedQuery:
        behind = tuple(results_behind_us(each.timing, each.context.bound) for each in self.below)
        return PlannedQuery(self.physical, self.context, tuple(each.planned() for each in self.below), behind)


def _plan_tree(context: PlanContext) -> _Level:
    """Plan a query and those whose results it reads."""
    context = replace(context, beside_others=context.beside_others or context.joins_results)
    whole, context = context, with_conditions_below(with_interval(reading(with_owners_settings(context))))
    inner = [without_limits(replace(whole, bound=query)) for query in context.bound.relation.queries]
    if context.bound.relation.joins_results:
        inner = [at_declared_time(each) for each in inner]
    check_stream_join(context)
    if context.is_chained:
        return _plan_outer(context, _plan_tree(inner[0]))
    planned = _plan_level(context, resolve_timing(context))
    if not inner:
        return planned
    read = [node.columns for node in walk(planned.physical) if isinstance(node, PhysicalResults)]
    below = [_plan_tree(_selecting(each, columns)) for each, columns in zip(inner, read, strict=True)]
    return _over(planned, below)


def _selecting(context: PlanContext, columns: Sequence[Column]) -> PlanContext:
    """A join within a join keeps only what is read of it."""
    bound, names = context.bound, {column.name for column in columns}
    if bound.kind == "aggregate" or bound.steps or bound.relation.stream_join is None:
        return context
    outputs = tuple(output for output in bound.outputs if output.name in names)
    used = {name for output in outputs for name in output.expr.columns}
    carried = tuple(key for key in bound.carried if key.name in used)
    return replace(context, bound=replace(bound, outputs=outputs, carried=carried))


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
    """Plan a query over the results of another."""
    return _over(_plan_level(context, resolve_result_timing(context, below.timing, below.context.bound)), [below])


def _over(planned: _Level, below: Sequence[_Level]) -> _Level:
    """A query with the plans of those whose results it reads below its own."""
    return replace(
        planned,
        logical=over_results(planned.logical, [each.logical for each in below]),
        optimized=over_results(planned.optimized, [each.optimized for each in below]),
        physical=over_results(planned.physical, [each.physical for each in below]),
        below=tuple(below),
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
        if transform.dedupe is not None and deduplicates(self.context):
            keys, sides = dedupe_keys(self.context)
            node = logical.LogicalDedupe(node, keys, transform.dedupe.within_us, sides)
        return node

    def relation(self) -> PlanNode:
        relation = self.context.bound.relation
        if relation.query is not None:
            return self._timed(logical.LogicalResults(relation.columns))
        sources = self.sources()
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

    def sources(self) -> list[PlanNode]:
        """What each branch reads: a stream, or the results of a query."""
        streams = iter([self.source(position, ref) for position, ref in enumerate(self.context.refs())])
        branches = self.context.bound.relation.branches
        read = [next(streams) if branch.query is None else self.results(branch, branch.query) for branch in branches]
        return read or list(streams)

    def results(self, branch: UnionBranch, query: BoundQuery) -> PlanNode:
        columns = tuple(Column(output.name, output.expr.type or "") for output in query.outputs)
        node = logical.LogicalResults(columns)
        if branch.time is None:
            return node
        return logical.LogicalEventTime(node, self.timing.mode, (time_by_sql(branch.time, columns),))

    def conditions(self, join: StreamJoin) -> Conditions:
        return split_conditions(join, self.context.bound.where)

    def source(self, position: int, ref: StreamRef) -> PlanNode:
        stream = self.context.streams.get(ref.name)
        columns = ref.columns or None
        before = [] if self.context.joins_results else self.context.refs()[:position]
        reading = 1 + sum(other.name == ref.name for other in before)
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
