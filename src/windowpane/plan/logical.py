"""Logical nodes: what the query asks for, step by step. Physical nodes say how it is done."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.plan.describe import describe_emit, describe_generator
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.timing import TimeMode
from windowpane.plan.leaves import ResultsNode, SourceNode
from windowpane.plan.node import Properties, UnaryNode, UnionNode, shown
from windowpane.plan.node_fields import SideRoute, describe_output
from windowpane.plan.result_steps import step_name, step_properties
from windowpane.sql.query import (
    AggregateCall,
    Emit,
    Expr,
    Generator,
    GroupKey,
    Output,
    Relation,
    StaticJoin,
    StreamJoin,
    Window,
)
from windowpane.sql.result_steps import ResultStep
from windowpane.time import format_duration


@dataclass(frozen=True)
class LogicalSource(SourceNode):
    """A stream."""


@dataclass(frozen=True)
class LogicalResults(ResultsNode):
    """The results of a windowed query, as rows."""


@dataclass(frozen=True)
class LogicalEventTime(UnaryNode):
    """Where a row's time comes from: the first step that yields a value wins."""

    mode: TimeMode
    steps: tuple[TimeStep, ...]

    def properties(self) -> Properties:
        return shown(mode=self.mode, steps=tuple(step.describe() for step in self.steps))


@dataclass(frozen=True)
class LogicalJoin(UnaryNode):
    """Enrichment with a static table. `relation`: the stream with all tables that are joined to it."""

    join: StaticJoin
    relation: Relation

    def properties(self) -> Properties:
        return shown(table=self.join.table, join=self.join.text)


@dataclass(frozen=True)
class LogicalGenerate(UnaryNode):
    """A row for each element of an array or map."""

    generator: Generator

    def properties(self) -> Properties:
        return describe_generator(self.generator)


@dataclass(frozen=True)
class LogicalBranch(UnaryNode):
    """One SELECT of a UNION ALL."""

    projection: tuple[tuple[str, Expr], ...]
    where: Expr | None

    def properties(self) -> Properties:
        columns = tuple(f"{expr.text} AS {name}" for name, expr in self.projection)
        return shown(columns=columns, where=self.where.text if self.where else None)


@dataclass(frozen=True)
class LogicalUnion(UnionNode):
    """UNION ALL of streams."""


@dataclass(frozen=True)
class LogicalStreamJoin(UnionNode):
    """A join of the two streams that are its branches. `on`: what is evaluated over pairs."""

    join: StreamJoin
    on: tuple[GroupKey, ...]

    def properties(self) -> Properties:
        return shown(kind=self.join.kind, keys=self.join.labels, on=tuple(condition.expr.text for condition in self.on))


@dataclass(frozen=True)
class LogicalFilter(UnaryNode):
    """WHERE."""

    condition: Expr

    def properties(self) -> Properties:
        return shown(condition=self.condition.text)


@dataclass(frozen=True)
class LogicalDedupe(UnaryNode):
    """Rows whose key was seen within the horizon are duplicates."""

    keys: tuple[GroupKey, ...]
    within_us: int
    sides: tuple[tuple[str, ...], ...] = ()
    """In a join of streams, the columns by which rows of the left and of the right side are compared; none if a side
    does not have them.
    """

    def properties(self) -> Properties:
        return shown(keys=tuple(key.label for key in self.keys), within=format_duration(self.within_us))


@dataclass(frozen=True)
class LogicalWindow(UnaryNode):
    """Rows to windows. `carried` is what a query without aggregates keeps of each row."""

    window: Window
    carried: tuple[GroupKey, ...]
    allowed_lateness_us: int

    def properties(self) -> Properties:
        window = self.window
        flags = {name: expr.text if expr else None for name, expr in _flags(window).items()}
        return shown(
            window=window.spec.describe(), partition_by=tuple(expr.text for expr in window.partition_by), **flags,
            allowed_lateness=format_duration(self.allowed_lateness_us) if self.allowed_lateness_us else None,
            carried=tuple(column.label for column in self.carried),
        )  # fmt: skip


def _flags(window: Window) -> dict[str, Expr | None]:
    return {"on": window.on, "when": window.when, "open": window.open, "emit_when": window.emit}


@dataclass(frozen=True)
class LogicalRows(UnaryNode):
    """A query without a window: rows in event-time order."""

    carried: tuple[GroupKey, ...]

    def properties(self) -> Properties:
        return shown(carried=tuple(column.label for column in self.carried))


@dataclass(frozen=True)
class LogicalAggregation(UnaryNode):
    """GROUP BY: keys and aggregates of each window."""

    keys: tuple[GroupKey, ...]
    calls: tuple[AggregateCall, ...]
    emit: Emit
    max_groups: int | None

    def properties(self) -> Properties:
        return shown(
            keys=tuple(describe_key(key) for key in self.keys),
            calls=tuple(f"{call.describe()} AS {call.name}" for call in self.calls),
            emit=describe_emit(self.emit), max_groups=self.max_groups,
        )  # fmt: skip


def describe_key(key: GroupKey) -> str:
    return f"{key.expr.text} AS {key.name}"


@dataclass(frozen=True)
class LogicalResultStep(UnaryNode):
    """A step of the result side: HAVING, ORDER BY and LIMIT of each window."""

    step: ResultStep

    @property
    def name(self) -> str:
        return f"Logical{step_name(self.step)}"

    def properties(self) -> Properties:
        return step_properties(self.step)


@dataclass(frozen=True)
class LogicalProjection(UnaryNode):
    """SELECT, over internal names and pseudo-columns."""

    outputs: tuple[Output, ...]

    def properties(self) -> Properties:
        return shown(columns=tuple(describe_output(output) for output in self.outputs))


@dataclass(frozen=True)
class LogicalSink(UnaryNode):
    """Where results and side rows go. Without sinks, the plan is only explained."""

    sinks: tuple[str, ...]
    routes: tuple[SideRoute, ...]

    def properties(self) -> Properties:
        return shown(sinks=self.sinks, routes=tuple(route.describe() for route in self.routes))
