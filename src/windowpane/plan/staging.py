"""From a physical plan to its stages, in one descent from the sink to the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from windowpane.core import columns as c
from windowpane.core.side import Key
from windowpane.errors import InternalError
from windowpane.plan import physical
from windowpane.plan.chaining import ChainCompiler, place_apart, place_chain, same_columns
from windowpane.plan.context import PlanContext
from windowpane.plan.input_staging import input_stage
from windowpane.plan.join_staging import join_plan
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import Aggregation, ColumnUse, InputColumn, JoinFields, WindowPlan
from windowpane.plan.placement import Layout, Placement, place, place_joined, place_joined_together, place_together
from windowpane.plan.shared_input import Leaf, input_of
from windowpane.plan.stages import (
    AnyStage,
    ChainStage,
    DedupeStage,
    InputStage,
    JoinStage,
    LeafStage,
    MeetingStage,
    OutputStage,
    ResultStage,
    StageGraph,
    TimeStage,
    WindowStage,
)
from windowpane.plan.stream_joins import grouped_by_keys
from windowpane.plan.taken_rows import SideResults, TakenRows
from windowpane.plan.traversal import walk
from windowpane.sql import SessionFacts
from windowpane.sql.result_steps import ResultStep
from windowpane.sql.types import has_no_order

Node = TypeVar("Node", bound=PlanNode)


@dataclass(frozen=True)
class PlannedQuery:
    """The physical plan of a query, or of a query that another one reads."""

    root: PlanNode
    context: PlanContext
    below: tuple[PlannedQuery, ...] = ()
    """The queries whose results it reads."""
    behind_us: tuple[int, ...] = ()
    """How far the results of each may be behind its watermark."""

    @property
    def sink(self) -> physical.PhysicalSink:
        return _expect(self.root, physical.PhysicalSink)

    @property
    def side(self) -> physical.PhysicalSideOutput:
        return _expect(self.sink.child, physical.PhysicalSideOutput)

    @property
    def result(self) -> physical.PhysicalFinalProject:
        return _expect(self.side.child, physical.PhysicalFinalProject)


def stages_of(query: PlannedQuery, session: SessionFacts) -> StageGraph:
    """The stages of a query and of those whose results it reads.

    `session`: settings that the expressions between two queries depend on.
    """
    making = _Making(session, query.context.joins_results)
    below = making.add(query)
    stages = [*making.stages, below.stage]
    stages.append(OutputStage("output", ("result",), sinks=query.sink.sinks, routes=query.side.routes))
    if not making.leaves:
        return place_chain(StageGraph(tuple(stages)))
    source, taken = input_of(making.leaves)
    changed = {each.name: replace(each, placement=_first(stages, each)) for each in taken}
    return place_apart(StageGraph((source, *(changed.get(each.name, each) for each in stages))))


def _first(stages: Sequence[AnyStage], leaf: LeafStage) -> Placement:
    """Where the rows of a leaf go first: to be compared with each other, to a join, or to a window."""
    above = next(each for each in stages if leaf.name in each.inputs)
    while not isinstance(above, MeetingStage | WindowStage):
        if isinstance(above, DedupeStage) and above.placement is not None:
            return above.placement
        above = next(each for each in stages if above.name in each.inputs)
    if isinstance(above, WindowStage):
        return above.layout.dedupe or above.layout.join or above.layout.window
    assert above.placement is not None
    return above.placement


@dataclass
class _Making:
    """The stages of queries, those that are read before those that read them."""

    session: SessionFacts
    parts: bool
    """Several queries read the rows of the input."""
    stages: list[AnyStage] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    count: int = 0

    def add(self, query: PlannedQuery) -> _Below:
        below = [self.add(each) for each in query.below]
        self.count += 1
        suffix = f"_{self.count}" if self.parts or self.count > 1 else ""
        leaves = self.leaves if self.parts else None
        staging = _Staging(query.context, self.session, below, query.behind_us, suffix, self.stages, leaves)
        return staging.result(query.result)


@dataclass(frozen=True)
class _Windowed:
    """A window with what says how its rows are used; `below` is where the rows come from."""

    below: PlanNode
    window: WindowPlan | None = None
    aggregation: Aggregation | None = None
    carried: tuple[ColumnUse, ...] = ()
    fused: bool = False
    pane: str | None = None
    join: JoinFields | None = None

    @property
    def groups(self) -> tuple[ColumnUse, ...]:
        return self.aggregation.keys if self.aggregation else ()

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(Key(use.name, use.label) for use in self.groups)

    @property
    def slack_us(self) -> int:
        return self.window.spec.slack_us() + self.window.allowed_lateness_us if self.window else 0

    def types(self) -> dict[str, str | None]:
        """Of the columns of the results, by their internal names."""
        calls = self.aggregation.calls if self.aggregation else ()
        return {use.name: use.type for use in (*self.groups, *self.carried)} | {call.name: call.type for call in calls}

    def aliases(self, dedupe: tuple[ColumnUse, ...]) -> dict[str, str]:
        """Columns that the operators read, each with the column of the input projection that it is."""
        found = {use.name: use.column for use in (*self.groups, *self.carried, *dedupe)}
        if self.window is not None:
            flags = {c.WHEN: self.window.when, c.OPEN: self.window.open, c.EMIT: self.window.emit}
            found |= {name: column for name, column in flags.items() if column is not None}
        return found


@dataclass(frozen=True)
class _Below:
    """The results of a query, for the query around it."""

    stage: ResultStage
    types: dict[str, str | None]
    """Of the window's columns, by their internal names."""
    plan_id: str


@dataclass(frozen=True)
class _Staging:
    """Appends the stages of a query from the sources up. Each method returns what the stage above has to know."""

    context: PlanContext
    session: SessionFacts
    below: Sequence[_Below]
    behind_us: Sequence[int]
    """As of PlannedQuery."""
    suffix: str
    """What tells the names of the stages from those of the queries below."""
    stages: list[AnyStage]
    leaves: list[Leaf] | None
    """What reads streams, if several queries do."""

    @property
    def account(self) -> str:
        return f"window{self.suffix}" if self.suffix else ""

    def name(self, stage: str) -> str:
        return f"{stage}{self.suffix}"

    def result(self, node: physical.PhysicalFinalProject) -> _Below:
        below, steps = node.child, list[ResultStep]()
        while isinstance(below, physical.PhysicalResultStep):
            steps.insert(0, below.step)
            below = below.child
        windowed = _windowed(below)
        texts = self.window(windowed)
        stage = ResultStage(
            "result",
            (self.name("window"),),
            steps=tuple(steps),
            outputs=node.outputs,
            grouped=windowed.aggregation is not None,
            keys=windowed.keys,
            ordered_keys=tuple(use.name for use in windowed.groups if not has_no_order(use.type)),
            key_texts=tuple(texts.get(use.column, use.label) for use in windowed.groups),
        )
        return _Below(stage, windowed.types(), self.context.bound.plan_id)

    def window(self, found: _Windowed) -> dict[str, str]:
        """Returns the expressions of the input projection by its columns."""
        dedupe = found.below if isinstance(found.below, physical.PhysicalDedupe) else None
        compared = dedupe.keys if dedupe else ()
        project = self.rows(dedupe.child if dedupe else found.below, found.aliases(compared), found)
        texts = {column.name: column.expr.text for column in project.columns}
        if self.context.bound.relation.joins_results:
            dedupe, compared = None, ()
        routed_by: tuple[str, ...] = ()
        if found.join is not None and dedupe is not None:
            compared = self.apart(found.join, dedupe, texts)
            routed_by = () if compared else found.join.join.keys
        below = self.dedupe(found, dedupe, routed_by) if dedupe is not None else self.name("time")
        if found.join is not None:
            self.stages.append(self.join(found, found.join, project.columns, below))
            texts |= {column.name: column.expr.text for column in found.join.computed}
            below = self.name("join")
        layout = self.layout(found, compared, texts)
        if found.join is None:
            self.place_branches(layout.window)
        limited = found.aggregation is not None and found.aggregation.max_groups is not None
        self.stages.append(
            WindowStage(
                self.name("window"),
                (below,),
                keys=found.keys,
                window=found.window,
                aggregation=found.aggregation,
                fused=found.fused,
                per_window=found.pane is None,
                admits=limited or dedupe is not None,
                layout=layout,
                together=self.together(found, compared),
                account=self.account,
            )
        )
        return texts

    def place_branches(self, placement: Placement) -> None:
        """Let the branches of a UNION ALL meet where the window is."""
        own = self.name("time")
        for at, stage in enumerate(self.stages):
            if isinstance(stage, MeetingStage) and (stage.name == own or stage.name.startswith(f"{own}.")):
                self.stages[at] = replace(stage, placement=placement)

    def dedupe(self, found: _Windowed, node: physical.PhysicalDedupe, routed_by: tuple[str, ...]) -> str:
        """A stage for each side whose rows are compared, or for all rows; returns the name of the last one."""
        below = self.name("time")
        for number, names in enumerate(node.sides or (None,)):
            compared = node.keys if names is None else tuple(use for use in node.keys if use.name in names)
            if compared:
                stage = DedupeStage(
                    self.name("dedupe_right" if names is not None and number else "dedupe"),
                    (below,),
                    keys=found.keys,
                    compared=compared,
                    within_us=node.within_us,
                    slack_us=found.slack_us,
                    of_right=None if names is None else bool(number),
                    routed_by=routed_by,
                    account=self.account,
                )
                self.stages.append(stage)
                below = stage.name
        return below

    def apart(self, fields: JoinFields, node: physical.PhysicalDedupe, texts: dict[str, str]) -> tuple[ColumnUse, ...]:
        """The columns by which copies have to be brought together; none if copies agree in the keys of the join."""
        columns = {use.name: texts.get(use.column, "") for use in node.keys}
        for number, names in enumerate(node.sides):
            known = {columns[name] for name in names}
            if names and any(pair[number].text not in known for pair in fields.join.equalities):
                return node.keys
        return ()

    def layout(self, found: _Windowed, compared: tuple[ColumnUse, ...], texts: dict[str, str]) -> Layout:
        if found.join is None:
            return place(found.window, found.aggregation, compared)
        join = found.join.join
        local = found.aggregation is None or grouped_by_keys(join, [texts[use.column] for use in found.groups])
        return place_joined(join, found.aggregation, local=local, dedupe=compared)

    def together(self, found: _Windowed, compared: tuple[ColumnUse, ...]) -> Layout:
        if found.join is None:
            return place_together(found.window, found.aggregation, compared)
        return place_joined_together(found.join.join, found.aggregation, compared)

    def join(self, found: _Windowed, fields: JoinFields, columns: tuple[InputColumn, ...], below: str) -> JoinStage:
        plan = join_plan(fields, columns, found.aliases(()), self.session)
        return JoinStage(
            self.name("join"),
            (below,),
            window=found.window,
            interval_us=fields.join.interval_us,
            plan=plan,
            session=self.session,
            account=self.account,
        )

    def rows(self, node: PlanNode, aliases: dict[str, str], found: _Windowed) -> physical.PhysicalProject:
        """The stages below dedupe and window: input and time. Streams that meet results are compared before that."""
        keys = found.keys
        watermark = _expect(node, physical.PhysicalWatermark)
        project = _expect(watermark.child, physical.PhysicalProject)
        if isinstance(watermark, physical.PhysicalResultWatermark):
            self.stages.append(self.chain(watermark, project, aliases, keys))
            return project
        if self.leaves is not None:
            taking = TakenRows(
                time=_time(watermark, keys, ()), project=project, aliases=aliases, context=self.context,
                session=self.session, name=self.name("time"), account=self.account,
                dedupe=found.below if isinstance(found.below, physical.PhysicalDedupe) else None,
                slack_us=found.slack_us,
            )  # fmt: skip
            results = [SideResults(each.stage, each.types, each.plan_id, us)
                       for each, us in zip(self.below, self.behind_us, strict=True)]  # fmt: skip
            self.stages.extend(taking.stages(results, self.leaves))
            return project
        stage = self.input(project, aliases)
        readings = [node.partitions_of for node in walk(stage.source) if isinstance(node, physical.PhysicalDataSource)]
        self.stages.extend([stage, _time(watermark, keys, tuple(readings))])
        return project

    def chain(
        self,
        watermark: physical.PhysicalResultWatermark,
        project: physical.PhysicalProject,
        aliases: dict[str, str],
        keys: tuple[Key, ...],
    ) -> ChainStage:
        """The stage over the results of the query below."""
        (results,) = self.below
        below = results.stage
        compiler = ChainCompiler(self.context, self.session)
        return ChainStage(
            self.name("time"),
            below.inputs,
            keys=keys,
            rows=compiler.rows(below, results.types, project, aliases, results.plan_id),
            behind_us=watermark.behind_us,
            ordered=watermark.ordered,
            late_rule=watermark.late_rule,
            ticks_for=watermark.ticks_for,
            same=same_columns(below, project),
            session=self.session,
            account=self.account,
        )

    def input(self, project: physical.PhysicalProject, aliases: dict[str, str]) -> InputStage:
        crossing = {column.name for column in project.columns}
        return input_stage(
            project.child,
            self.context.bound.relation,
            project.columns,
            where=project.where,
            original=project.original,
            aliases=tuple((name, column) for name, column in aliases.items() if column in crossing),
        )


def _time(node: physical.PhysicalWatermark, keys: tuple[Key, ...], streams: tuple[str, ...]) -> TimeStage:
    stage = TimeStage(
        "time",
        ("input",),
        keys=keys,
        streams=streams if len(streams) > 1 else (),
        mode="processing_time",
        ordered=node.ordered,
        deadlines=node.deadlines,
        ticks_for=node.ticks_for,
        late_rule="window",
    )
    if not isinstance(node, physical.PhysicalEventtimeWatermark):
        return stage
    return replace(
        stage,
        mode="event_time",
        late_rule=node.late_rule,
        lag_us=node.lag_us,
        max_future_skew_us=node.max_future_skew_us,
        idle_timeout_us=node.idle_timeout_us,
    )


def _windowed(node: PlanNode) -> _Windowed:
    match node:
        case physical.PhysicalStreamingAggregation():
            return _Windowed(node.child, node.window, node.aggregation, fused=True, pane=node.pane)
        case physical.PhysicalAggregation(child=physical.PhysicalWindow() as below):
            return _Windowed(below.child, below.window, node.aggregation, below.carried)
        case physical.PhysicalAggregation(child=physical.PhysicalStreamJoin() as below):
            return _Windowed(below.child, below.window, node.aggregation, below.carried, join=below.join)
        case physical.PhysicalStreamJoin():
            return _Windowed(node.child, node.window, carried=node.carried, join=node.join)
        case physical.PhysicalWindow():
            return _Windowed(node.child, node.window, carried=node.carried)
        case physical.PhysicalRows():
            return _Windowed(node.child, carried=node.carried)
    raise InternalError("PLAN_SHAPE", f"{node.name} stands where a window should be")


def _expect(node: PlanNode, kind: type[Node]) -> Node:
    if not isinstance(node, kind):
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where {kind.__name__} should be")
    return node
