"""Physical nodes from the window up: windows, aggregations, results, side output and sinks."""

from __future__ import annotations

from dataclasses import dataclass, field

from windowpane.plan.node import Properties, UnaryNode, shown
from windowpane.plan.node_fields import (
    Aggregation,
    ColumnUse,
    JoinFields,
    SideRoute,
    WindowPlan,
    describe_output,
    labels,
)
from windowpane.plan.result_steps import step_name, step_properties
from windowpane.sql.query import Expr, Output
from windowpane.sql.result_steps import ResultStep


@dataclass(frozen=True)
class PhysicalWindow(UnaryNode):
    """Rows to windows, rows kept. `carried`: what a query without aggregates emits of each row."""

    window: WindowPlan
    carried: tuple[ColumnUse, ...]

    @property
    def name(self) -> str:
        return f"Physical{self.window.spec.kind.capitalize()}Window"

    def properties(self) -> Properties:
        return self.window.properties() | shown(carried=labels(self.carried))


@dataclass(frozen=True)
class PhysicalStreamJoin(UnaryNode):
    """Joins the rows of two streams. `carried`: what a query without aggregates emits of a joined row."""

    window: WindowPlan | None
    join: JoinFields
    carried: tuple[ColumnUse, ...]

    @property
    def name(self) -> str:
        return "PhysicalIntervalJoin" if self.window is None else "PhysicalWindowJoin"

    def properties(self) -> Properties:
        window = self.window.properties() if self.window else {}
        return window | self.join.properties() | shown(carried=labels(self.carried))


@dataclass(frozen=True)
class PhysicalRows(UnaryNode):
    """A query without a window: each row as it is released."""

    carried: tuple[ColumnUse, ...]

    def properties(self) -> Properties:
        return shown(carried=labels(self.carried))


@dataclass(frozen=True)
class PhysicalAggregation(UnaryNode):
    """Aggregates over the kept rows of the PhysicalWindow below. `not_fused` says why it is not a streaming one."""

    aggregation: Aggregation
    not_fused: str | None = field(default=None, compare=False)

    def properties(self) -> Properties:
        return self.aggregation.properties() | shown(not_fused=self.not_fused)


@dataclass(frozen=True)
class PhysicalStreamingAggregation(UnaryNode):
    """Window and aggregation in one: state is accumulators, never rows (sliding: rows of the range only).

    `pane`: overlapping windows share panes of this width. None: one state per window, `panes` then says why.
    """

    window: WindowPlan
    aggregation: Aggregation
    pane: str | None = None
    panes: str | None = field(default=None, compare=False)

    def properties(self) -> Properties:
        panes = f"shared({self.pane})" if self.pane is not None else self.panes
        return self.window.properties() | self.aggregation.properties() | shown(panes=panes)


@dataclass(frozen=True)
class PhysicalResultStep(UnaryNode):
    """A step of the result side over internal names and pseudo-columns, native Spark SQL."""

    step: ResultStep

    @property
    def name(self) -> str:
        return f"Physical{step_name(self.step)}"

    def properties(self) -> Properties:
        return step_properties(self.step)


@dataclass(frozen=True)
class PhysicalFinalProject(UnaryNode):
    """The result's columns, native Spark SQL over internal names and pseudo-columns.

    `error` is NULL for an emission that evaluates well, else the reason of its error. It covers the steps below too.
    """

    outputs: tuple[Output, ...]
    error: Expr | None = None

    def properties(self) -> Properties:
        columns = tuple(describe_output(output) for output in self.outputs)
        return shown(columns=columns, guarded=self.error is not None)


@dataclass(frozen=True)
class PhysicalSideOutput(UnaryNode):
    """Takes the tagged rows out of the stream and routes them; main rows go on."""

    routes: tuple[SideRoute, ...]

    def properties(self) -> Properties:
        return shown(routes=tuple(route.describe() for route in self.routes))


@dataclass(frozen=True)
class PhysicalSink(UnaryNode):
    """Where results go. No sinks: to whoever asked (EXPLAIN of bare SQL, the test harness)."""

    sinks: tuple[str, ...]

    def properties(self) -> Properties:
        return shown(sinks=self.sinks)
