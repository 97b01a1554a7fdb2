"""From the stages of a plan to the graph of the core's operators. The same for every host: test harness and Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.emission import EmitPolicy
from windowpane.core.graph import Graph, Input, Node
from windowpane.core.operators.aggregation import Aggregation, PlainRows, RowEmission
from windowpane.core.operators.base import Operator
from windowpane.core.operators.dedupe import Dedupe
from windowpane.core.operators.intake import Intake, LateGate, ProcessTimeIntake
from windowpane.core.operators.watermark import EventtimeWatermark, ProcessTimeWatermark
from windowpane.core.operators.window_kinds import WindowSettings, aggregating_operators, row_operator
from windowpane.plan.node_fields import PhysicalCall, WindowPlan
from windowpane.plan.stages import DedupeStage, InputStage, Stage, StageGraph, TimeStage, WindowStage
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
    building = _Building(stages, rows, data_driven=data_driven, feedback=feedback, sharded=sharded)
    for stage in stages.stages:
        building.add(stage)
    return Graph(building.nodes)


@dataclass
class _Building:
    stages: StageGraph
    rows: Mapping[str, pa.Schema]
    data_driven: bool
    feedback: bool
    sharded: bool
    nodes: list[Node] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)
    """The node or entry by which the rows of each stage leave it."""

    def add(self, stage: Stage) -> None:
        """Append the operators of a stage, behind those of the stages it takes rows from."""
        match stage:
            case InputStage():
                self.last[stage.name] = stage.name
            case TimeStage():
                self.add_time(stage)
            case DedupeStage():
                by = [use.name for use in stage.compared]
                dedupe = Dedupe(by, stage.within_us, slack_us=stage.slack_us, keys=stage.keys)
                self.last[stage.name] = self.append(stage, [dedupe], self.last[stage.inputs[0]])
            case WindowStage():
                operators = self.window(stage)[len(self.folding(stage)) :]
                self.last[stage.name] = self.append(stage, operators, self.last[stage.inputs[0]])

    def add_time(self, stage: TimeStage) -> None:
        """Rows are judged and folded before they reach the watermark, which then covers what was made of them."""
        intake, *gate = self.intake(stage)
        source = self.append(stage, [intake], self.last[stage.inputs[0]], before_shuffle=True)
        source = self.append(stage, gate, source, before_shuffle=self.feedback)
        for window in self.windows_over(stage.name):
            source = self.append(window, self.folding(window), source, before_shuffle=True)
        self.last[stage.name] = self.append(stage, [self.watermark(stage)], source)

    def folding(self, stage: WindowStage) -> list[Operator]:
        """The operators of a window that run before the shuffle. Windows that share a watermark have none."""
        alone = self.windows_over(stage.inputs[0]) == [stage]
        return [each for each in self.window(stage) if each.folds] if self.feedback and stage.folds and alone else []

    def windows_over(self, name: str) -> list[WindowStage]:
        """The windows that take their rows from a stage."""
        return [each for each in self.stages.of(WindowStage) if name in each.inputs]

    def append(self, stage: Stage, operators: Sequence[Operator], source: str, *, before_shuffle: bool = False) -> str:
        """Nodes in a row; returns the name of the last one."""
        for operator in operators:
            name = f"{stage.name}.{type(operator).__name__}"
            # Checkpoints number the operators of the main query.
            key = name if stage.account else None
            inputs = (Input(source),)
            self.nodes.append(Node(name, operator, inputs, stage.account, before_shuffle=before_shuffle, key=key))
            source = name
        return source

    def intake(self, stage: TimeStage) -> list[Operator]:
        if stage.mode == "processing_time":
            return [ProcessTimeIntake(stage.keys)]
        judged = [LateGate(stage.keys)] if stage.ordered or stage.late_rule == "row" else []
        return [Intake(stage.keys, max_future_skew_us=stage.max_future_skew_us), *judged]

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
        calls = [_call(call) for call in stage.aggregation.calls]
        aggregator = Aggregator(calls, [key.name for key in stage.keys], self.schema_below(stage))
        if stage.fused:
            return aggregating_operators(settings, aggregator)
        return [row_operator(settings), Aggregation(stage.keys, aggregator)]

    def schema_below(self, stage: Stage) -> pa.Schema:
        """Schema of the rows of the input that a stage takes them from, through the stages between."""
        below = self.stages.by_name[stage.inputs[0]]
        return self.rows[below.name] if isinstance(below, InputStage) else self.schema_below(below)

    def settings(self, stage: WindowStage, window: WindowPlan) -> WindowSettings:
        aggregation = stage.aggregation
        return WindowSettings(
            window.spec,
            keys=stage.keys,
            partition_by=window.partition_by,
            allowed_lateness_us=window.allowed_lateness_us,
            max_groups=aggregation.max_groups if aggregation else None,
            per_window=stage.per_window,
            emit=_policy(aggregation.emit) if aggregation else EmitPolicy(),
            conditional=window.when is not None,
            broadcast=self.sharded and stage.placement.broadcast,
        )


def _call(call: PhysicalCall) -> Call:
    return Call(
        call.name, call.function, inputs=call.args, params=call.params, distinct=call.distinct, filter=call.filter
    )


def _policy(emit: Emit) -> EmitPolicy:
    return EmitPolicy(emit.mode != "close", emit.every_us)
