"""From the stages of a plan to the graph of the core's operators. The same for every host: test harness and Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.emission import EmitPolicy
from windowpane.core.graph import Graph, Input, Node
from windowpane.core.operators.aggregation import Aggregation, PlainRows, RowEmission
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.branches import Handover, Meeting, Parting, Passing
from windowpane.core.operators.chained import ResultIntake, ResultsAsRows
from windowpane.core.operators.dedupe import Dedupe
from windowpane.core.operators.group_quota import RequestGroups
from windowpane.core.operators.intake import Intake, LateGate, ProcessTimeIntake
from windowpane.core.operators.interval_join import IntervalJoin
from windowpane.core.operators.joined_groups import AdmitJoinedGroups, QuotaJoined, RequestJoinedGroups
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.core.operators.time_order import TimeOrder
from windowpane.core.operators.watermark import EventtimeWatermark, ProcessTimeWatermark
from windowpane.core.operators.window_join import FoldJoined, JoinedRows, WindowJoin
from windowpane.core.operators.window_kinds import (
    QuotaOperators,
    WindowSettings,
    aggregating_operators,
    quota_operators,
    row_operator,
)
from windowpane.core.routing import Route
from windowpane.core.side import Key
from windowpane.core.windows import AlignedSpec
from windowpane.errors import InternalError
from windowpane.plan.node_fields import PhysicalCall, WindowPlan
from windowpane.plan.placement import Placement
from windowpane.plan.shared_input import PREFIX, STREAM
from windowpane.plan.stages import (
    ChainStage,
    DedupeStage,
    InputStage,
    JoinStage,
    LeafStage,
    MeetingStage,
    SideStage,
    Stage,
    StageGraph,
    TimeStage,
    WindowStage,
)
from windowpane.sql.query import Emit


def build_graph(
    stages: StageGraph,
    rows: Mapping[str, pa.Schema],
    *,
    data_driven: bool = True,
    feedback: bool = False,
    sharded: bool = False,
) -> Graph:
    """The operators of a plan. The entries of the graph have the names of the input stages.

    `rows`: schema of the rows of each input, by internal names and with the aliases of the stage. `data_driven`: event
    times move the watermark. `feedback`: tasks of the source know the watermark of the batch before, so that they can
    judge and fold rows. `sharded`: rows are divided among shards.
    """
    layout = stages if sharded else stages.in_one_shuffle()
    building = _Building(
        layout, rows, data_driven=data_driven, feedback=feedback, sharded=sharded, spread=layout.is_spread
    )
    for stage in layout.stages:
        building.add(stage)
    return Graph(building.nodes)


@dataclass
class _Building:
    stages: StageGraph
    rows: Mapping[str, pa.Schema]
    data_driven: bool
    feedback: bool
    sharded: bool
    spread: bool = True
    """Rows may be shuffled more than once."""
    nodes: list[Node] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)
    """The node or entry by which the rows of each stage leave it."""
    steps: dict[str, int] = field(default_factory=dict)
    """The step at which each node runs."""
    chained_by: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For windows that are on the same shards as the window below: the columns of their rows that say which."""

    def add(self, stage: Stage) -> None:
        """Append the operators of a stage, behind those of the stages it takes rows from."""
        match stage:
            case InputStage():
                self.last[stage.name] = self.shared_input(stage) if self.stages.of(LeafStage) else stage.name
            case LeafStage():
                self.add_leaf(stage)
            case SideStage():
                self.add_side(stage)
            case MeetingStage():
                self.add_meeting(stage)
            case TimeStage():
                self.add_time(stage)
            case ChainStage():
                self.add_chain(stage)
            case DedupeStage():
                self.add_dedupe(stage)
            case JoinStage():
                self.last[stage.name] = self.add_join(stage)
            case WindowStage():
                self.last[stage.name] = self.add_window(stage)

    def add_time(self, stage: TimeStage) -> None:
        """Rows are judged and folded before they reach the watermark, which then covers what was made of them."""
        intake, *gate = self.intake(stage)
        windows = self.windows_over(stage.name)
        layouts = [each.layout for each in self.stages.windows[:1]]
        early = [each.dedupe or each.join for each in layouts if each.join or each.dedupe]
        first = (early or [layouts[0].window])[0] if layouts else Placement()
        source = self.append(stage, [intake], self.last[stage.inputs[0]], step=0)
        source = self.append(stage, gate, source, step=0 if self.feedback else 1, to=first)
        for window in windows:
            source = self.append(window, self.folding(window) or self.requesting(window), source)
        self.last[stage.name] = self.append(stage, [self.watermark(stage)], source, step=1, to=first)

    def shared_input(self, stage: InputStage) -> str:
        """Rows that several queries take."""
        time = self.stages.of(LeafStage)[0]
        by_clock = time.mode == "processing_time"
        skew_us = time.max_future_skew_us
        intake = ProcessTimeIntake(cut=time.cut) if by_clock else Intake(max_future_skew_us=skew_us, cut=time.cut)
        return self.append(stage, [intake, Handover()], stage.name, step=0)

    def add_leaf(self, stage: LeafStage) -> None:
        """The rows that one query takes. They are judged behind the shuffle, where its account is."""
        parting = Parting(STREAM, stage.numbers, dict(stage.columns), PREFIX)
        source = self.append(stage, [parting], self.last[stage.inputs[0]], step=0)
        gate = [LateGate(stage.keys)] if stage.ordered or stage.late_rule == "row" else []
        taken: list[Operator] = [ResultIntake(stage.keys), *gate, self.watermark(stage)]
        source = self.append(stage, taken, source, step=1, to=stage.placement)
        self.last[stage.name] = self.known(stage, source)

    def add_dedupe(self, stage: DedupeStage) -> None:
        """Rows are compared where they are; the layout has brought copies together."""
        by = [*(use.name for use in stage.compared), *stage.routed_by]
        dedupe = Dedupe(by, stage.within_us, slack_us=stage.slack_us, keys=stage.keys, of_right=stage.of_right)
        source = self.append(stage, [dedupe], self.last[stage.inputs[0]])
        self.last[stage.name] = self.known(stage, source) if self.stages.of(LeafStage) else source

    def add_side(self, stage: SideStage) -> None:
        """Results as rows of one side of a join."""
        source, as_rows = self.last[stage.inputs[0]], ResultsAsRows(stage.rows, delay_us=stage.behind_us)
        source = self.append(stage, [as_rows], source, **self.whole_windows(stage))
        self.last[stage.name] = self.known(stage, self.append(stage, [ResultIntake(stage.keys)], source))

    def whole_windows(self, stage: ChainStage) -> dict[str, Any]:
        """Results that are compared with others of their window go to one place for each window."""
        if not stage.rows.compares or not self.spread:
            return {}
        return {"step": self.steps[self.last[stage.inputs[0]]] + 1, "to": Placement((c.WINDOW_START, c.WINDOW_END))}

    def add_meeting(self, stage: MeetingStage) -> None:
        """Results go where the partners are, and so do rows of streams that have come there before."""
        sources = [self.last[name] for name in stage.inputs]
        moved = stage.placement is not None and any(_comes_from_elsewhere(self.stages.by_name[name])
                                                    for name in stage.inputs)  # fmt: skip
        step = max(self.steps[source] for source in sources) + moved
        to = stage.placement or Placement()
        sources = [self.passed(stage, each, source, step - 1, to) for each, source in
                   zip(stage.inputs, sources, strict=True)]  # fmt: skip
        name = f"{stage.name}.Meeting"
        route = Route(to.route_by, to.broadcast, stage.account)
        inputs = tuple(
            Input(source, port, route=route if self.steps[source] < step else None)
            for port, source in zip(Meeting.inputs, sources, strict=True)
        )
        left, right = (self.rows[each] for each in stage.inputs)
        self.nodes.append(Node(name, Meeting(left, right), inputs, stage.account, step=step, key=name))
        self.steps[name] = step
        if stage.ordered is not None:
            name = self.append(stage, [EventtimeWatermark(ordered=stage.ordered, data_driven=False)], name)
        self.last[stage.name] = self.known(stage, name)

    def passed(self, stage: MeetingStage, name: str, source: str, last: int, to: Placement) -> str:
        """Rows of the stage `name`, brought on to the step `last` if they are at an earlier one."""
        for at in range(self.steps[source] + 1, last + 1):
            source = self.append(stage, [Passing()], source, step=at, to=to, name=f"{name}.Passing{at}")
        return source

    def known(self, stage: Stage, node: str) -> str:
        """Keep the schema of the rows that leave a stage by a node, which is returned."""
        entries = {name: schema for name, schema in self.rows.items() if name not in self.stages.by_name or
                   isinstance(self.stages.by_name[name], InputStage)}  # fmt: skip
        self.rows = {**self.rows, stage.name: Graph(self.nodes).schemas(entries)[node]}
        return node

    def add_chain(self, stage: ChainStage) -> None:
        """Rows are computed and counted where the results are. Before a shuffle, they are folded."""
        source = self.last[stage.inputs[0]]
        gate = [LateGate(stage.keys)] if stage.ordered or stage.late_rule == "row" else []
        as_rows = ResultsAsRows(stage.rows, delay_us=stage.behind_us)
        if stage.placement is None:
            self.chained_by[stage.account] = self.windows_over(stage.name)[0].layout.window.route_by
        made = self.append(stage, [as_rows], source, **self.whole_windows(stage))
        self.rows = {**self.rows, stage.name: Graph(self.nodes).schemas(self.rows)[made]}
        source = self.append(stage, [ResultIntake(stage.keys), *gate], made)
        step = self.steps[source]
        if stage.placement is not None:
            for window in self.windows_over(stage.name):
                source = self.append(window, self.folding(window), source)
            step += 1
        releasing = EventtimeWatermark(ordered=stage.ordered, data_driven=False)
        self.last[stage.name] = self.append(stage, [releasing], source, step=step, to=stage.placement)

    def add_window(self, stage: WindowStage) -> str:
        """The operators of a window that do not run before the watermark."""
        source, layout = self.last[stage.inputs[0]], stage.layout
        if isinstance(self.stages.by_name[stage.inputs[0]], JoinStage):
            return self.add_joined(stage, source)
        below = self.stages.by_name[stage.inputs[0]]
        over_time = isinstance(below, TimeStage) and not isinstance(below, LeafStage)
        if layout.quota:
            return self.add_quota(stage, source, over_time=over_time)
        operators = self.window(stage)[len(self.folding(stage)) :]
        if layout.dedupe is None:
            return self.append(stage, operators, source)
        folding = [each for each in operators if each.folds]
        source = self.append(stage, folding, source)
        ordering = [TimeOrder()] if self.is_ordered(stage) else []
        return self.append(
            stage, [*ordering, *operators[len(folding) :]], source, step=self.steps[source] + 1, to=layout.window
        )

    def is_ordered(self, stage: Stage) -> bool:
        """Whether the rows that come to a stage are released by (event time, arrival)."""
        below = self.stages.by_name[stage.inputs[0]]
        return below.ordered if isinstance(below, TimeStage) else self.is_ordered(below)

    def add_join(self, stage: JoinStage) -> str:
        """Rows are joined behind dedupe, and go on to another shard if their copies are not where partners are."""
        source = self.last[stage.inputs[0]]
        layout = self.windows_over(stage.name)[0].layout
        apart = layout.dedupe is not None
        to = (layout.join or layout.window) if apart else None
        return self.append(stage, [self.join(stage)], source, step=self.steps[source] + apart, to=to)

    def join(self, stage: JoinStage) -> WindowJoin | IntervalJoin:
        if stage.window is None:
            assert stage.interval_us is not None
            return IntervalJoin(stage.plan, stage.interval_us, stage.cut)
        settings = replace(_aligned_plan(stage.window, stage.plan.keys), cut=stage.cut)
        joined = WindowJoin(settings, stage.plan).output_schema(self.schema_below(stage))
        above = [each for each in self.windows_over(stage.name) if each.aggregation is not None]
        in_order = not above or any(self.aggregator(each, joined).is_ordered for each in above)
        return WindowJoin(settings, replace(stage.plan, in_order=in_order))

    def add_joined(self, stage: WindowStage, source: str) -> str:
        """Joined rows are emitted, or folded where they are and merged where their groups are."""
        if stage.aggregation is None:
            return self.append(stage, [JoinedRows()], source)
        assert stage.window is not None
        joined = self.joined_schema(stage)
        aggregator = self.aggregator(stage, joined)
        most = stage.aggregation.max_groups
        plan = replace(_aligned_plan(stage.window, stage.keys), per_window=True, max_groups=most)
        merging = MergeAggregation(plan, aggregator, EmitPolicy())
        if plan.max_groups is not None:
            return self.append(stage, [merging], self.admitted(stage, plan, aggregator, source))
        source = self.append(stage, [FoldJoined(aggregator)], source)
        step = self.steps[source] + (stage.layout.join is not None)
        return self.append(stage, [merging], source, step=step, to=stage.layout.window)

    def admitted(self, stage: WindowStage, plan: AlignedPlan, aggregator: Aggregator, source: str) -> str:
        """Groups of joined rows are requested where these are made, counted at the next step, and folded at the one
        after. Joined rows have an account of their own, since one row of a stream can be in several groups.
        """
        own = replace(stage, account=f"{stage.account}_joined".lstrip("_"))
        apart, to = int(stage.layout.quota), stage.layout.window
        source = self.append(stage, [RequestJoinedGroups(plan)], source)
        asked_at = self.steps[source]
        source = self.append(own, [AdmitJoinedGroups(plan)], source, step=asked_at + apart, to=to)
        return self.append(own, [QuotaJoined(plan, aggregator)], source, step=asked_at + 2 * apart, to=to)

    def joined_schema(self, stage: WindowStage) -> pa.Schema:
        """Schema of the rows that a join gives."""
        join = self.stages.by_name[stage.inputs[0]]
        assert isinstance(join, JoinStage)
        return self.join(join).output_schema(self.schema_below(join))

    def add_quota(self, stage: WindowStage, source: str, *, over_time: bool) -> str:
        """Groups are requested where the rows are, counted at the next step, and aggregated at the one after."""
        if not over_time:
            source = self.append(stage, self.requesting(stage), source)
        asked_at = next(node.step for node in self.nodes if isinstance(node.operator, RequestGroups))
        quota = self.quota(stage)
        source = self.append(stage, [quota.admit], source, step=asked_at + 1, to=stage.layout.window)
        return self.append(stage, quota.aggregate, source, step=asked_at + 2, to=stage.layout.window)

    def folding(self, stage: WindowStage) -> list[Operator]:
        """The operators of a window that run before the shuffle. Windows that share a watermark have none."""
        alone = self.windows_over(stage.inputs[0]) == [stage]
        chain = self.stages.by_name[stage.inputs[0]]
        if isinstance(chain, LeafStage | MeetingStage):
            return []
        judged = chain.placement is not None if isinstance(chain, ChainStage) else self.feedback
        return [each for each in self.window(stage) if each.folds] if judged and stage.folds and alone else []

    def requesting(self, stage: WindowStage) -> list[Operator]:
        """The operator that asks for groups, if they are counted at a step of their own."""
        return [self.quota(stage).request] if stage.layout.quota else []

    def windows_over(self, name: str) -> list[WindowStage]:
        """The windows that take their rows from a stage."""
        return [each for each in self.stages.of(WindowStage) if name in each.inputs]

    def append(
        self, stage: Stage, operators: Sequence[Operator], source: str, *, step: int | None = None,
        to: Placement | None = None, name: str | None = None,
    ) -> str:  # fmt: skip
        """Nodes in a row; returns the name of the last one. They run where their source does, or at `step`.

        `to`: where the rows go, if that is a later step. `name`: of the only operator.
        """
        given = name
        for operator in operators:
            name = given or f"{stage.name}.{type(operator).__name__}"
            # Checkpoints number the operators of the main query.
            key = name if stage.account else None
            at = self.steps.get(source, 0) if step is None else step
            crosses = at > self.steps.get(source, 0)
            route = Route(to.route_by, to.broadcast, stage.account) if crosses and to is not None else None
            node = Node(name, operator, (Input(source, route=route),), stage.account, step=at, key=key)
            node.routed_by = self.chained_by.get(stage.account)
            self.nodes.append(node)
            self.steps[name], source = at, name
        return source

    def intake(self, stage: TimeStage) -> list[Operator]:
        if stage.mode == "processing_time":
            return [ProcessTimeIntake(stage.keys, cut=stage.cut)]
        judged = [LateGate(stage.keys)] if stage.ordered or stage.late_rule == "row" else []
        return [Intake(stage.keys, max_future_skew_us=stage.max_future_skew_us, cut=stage.cut), *judged]

    def watermark(self, stage: TimeStage) -> Operator:
        if stage.mode == "processing_time":
            return ProcessTimeWatermark()
        return EventtimeWatermark(
            lag_us=stage.lag_us,
            streams=stage.streams,
            idle_timeout_us=stage.idle_timeout_us,
            ordered=stage.ordered,
            data_driven=self.data_driven,
        )

    def window(self, stage: WindowStage) -> list[Operator]:
        if stage.window is None:
            return [PlainRows()]
        settings = self.settings(stage, stage.window)
        if stage.aggregation is None:
            return [row_operator(settings), RowEmission()]
        aggregator = self.aggregator(stage)
        if stage.fused:
            return aggregating_operators(settings, aggregator)
        return [row_operator(settings), Aggregation(stage.keys, aggregator)]

    def quota(self, stage: WindowStage) -> QuotaOperators:
        """The operators of a window whose groups are counted at a step of their own."""
        assert stage.window is not None
        return quota_operators(self.settings(stage, stage.window), self.aggregator(stage))

    def aggregator(self, stage: WindowStage, rows: pa.Schema | None = None) -> Aggregator:
        """`rows`: schema of what is aggregated, if that is not the rows of an input."""
        assert stage.aggregation is not None
        calls = [_call(call) for call in stage.aggregation.calls]
        return Aggregator(calls, [key.name for key in stage.keys], rows or self.schema_below(stage))

    def schema_below(self, stage: Stage) -> pa.Schema:
        """Schema of the rows of the input that a stage takes them from, through the stages between."""
        below = self.stages.by_name[stage.inputs[0]]
        return self.rows[below.name] if below.name in self.rows else self.schema_below(below)

    def settings(self, stage: WindowStage, window: WindowPlan) -> WindowSettings:
        aggregation = stage.aggregation
        return WindowSettings(
            window.spec,
            keys=stage.keys,
            partition_by=window.partition_by,
            allowed_lateness_us=window.allowed_lateness_us,
            closed_until_us=window.closed_until_us,
            cut=window.cut,
            max_groups=aggregation.max_groups if aggregation else None,
            per_window=stage.per_window,
            emit=_policy(aggregation.emit) if aggregation else EmitPolicy(),
            conditional=window.when is not None,
            broadcast=self.sharded and stage.layout.window.broadcast,
        )


def _comes_from_elsewhere(stage: Stage) -> bool:
    """Whether the rows of a stage are on other shards than those where they meet others."""
    return isinstance(stage, SideStage) or (isinstance(stage, DedupeStage) and stage.placement is not None)


def _aligned_plan(window: WindowPlan, keys: tuple[Key, ...]) -> AlignedPlan:
    if not isinstance(window.spec, AlignedSpec):
        raise InternalError("PLAN_SHAPE", f"{window.spec} does not join streams")
    return AlignedPlan(window.spec, keys, window.allowed_lateness_us, closed_until_us=window.closed_until_us)


def _call(call: PhysicalCall) -> Call:
    return Call(
        call.name, call.function, inputs=call.args, params=call.params, distinct=call.distinct, filter=call.filter
    )


def _policy(emit: Emit) -> EmitPolicy:
    return EmitPolicy(emit.mode != "close", emit.every_us)
