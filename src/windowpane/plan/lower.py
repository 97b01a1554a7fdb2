"""Logical to physical: one physical node per logical one, watermark and input projection put in below the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from windowpane.core import columns as c
from windowpane.core.windows import WindowSpec
from windowpane.errors import InternalError
from windowpane.plan import logical, physical
from windowpane.plan.eventtime.timing import Timing
from windowpane.plan.guard import branch_error, result_error, row_error
from windowpane.plan.inputs import WHERE, column_use, input_columns, partition_names, physical_call
from windowpane.plan.node import PlanNode, UnaryNode
from windowpane.plan.node_fields import Aggregation, ColumnUse, JoinFields, WindowPlan
from windowpane.plan.stream_joins import split_columns
from windowpane.sql.query import Expr, GroupKey, Relation
from windowpane.sql.result_steps import ResultStep, segments

Node = TypeVar("Node", bound=UnaryNode)


def lower(root: logical.LogicalSink, timing: Timing, relation: Relation) -> PlanNode:
    """The physical plan of a logical one, no rule applied yet."""
    return _Lowering(root, _Clauses.of(root), timing, relation).sink()


@dataclass(frozen=True)
class _Clauses:
    """The nodes of one query, by what they are to it."""

    projection: logical.LogicalProjection
    steps: tuple[ResultStep, ...]
    aggregation: logical.LogicalAggregation | None
    window: logical.LogicalWindow | None
    rows: logical.LogicalRows | None
    dedupe: logical.LogicalDedupe | None
    where: logical.LogicalFilter | None
    source: PlanNode
    """Everything below WHERE."""

    @classmethod
    def of(cls, root: logical.LogicalSink) -> _Clauses:
        projection, node = _part(root.child, logical.LogicalProjection)
        if projection is None:
            raise InternalError("PLAN_SHAPE", f"{root.child.name} stands where the result's columns should be")
        steps: list[ResultStep] = []
        while isinstance(node, logical.LogicalResultStep):
            steps.insert(0, node.step)
            node = node.child
        aggregation, node = _part(node, logical.LogicalAggregation)
        window, node = _part(node, logical.LogicalWindow)
        rows, node = _part(node, logical.LogicalRows)
        dedupe, node = _part(node, logical.LogicalDedupe)
        where, source = _part(node, logical.LogicalFilter)
        return cls(
            projection,
            steps=tuple(steps),
            aggregation=aggregation,
            window=window,
            rows=rows,
            dedupe=dedupe,
            where=where,
            source=source,
        )

    @property
    def carried(self) -> tuple[GroupKey, ...]:
        """What a query without aggregates keeps of each row."""
        kept = self.rows or self.window
        return kept.carried if kept else ()

    @property
    def stream_join(self) -> logical.LogicalStreamJoin | None:
        _, node = _part(self.source, logical.LogicalEventTime)
        return node if isinstance(node, logical.LogicalStreamJoin) else None

    @property
    def spec(self) -> WindowSpec | None:
        return self.window.window.spec if self.window else None


def _part(node: PlanNode, kind: type[Node]) -> tuple[Node | None, PlanNode]:
    """The node if it is of that kind, and what is below."""
    return (node, node.child) if isinstance(node, kind) else (None, node)


@dataclass(frozen=True)
class _Lowering:
    root: logical.LogicalSink
    clauses: _Clauses
    timing: Timing
    relation: Relation

    def sink(self) -> PlanNode:
        outputs = self.clauses.projection.outputs
        result = physical.PhysicalFinalProject(self.results(), outputs, self.result_error())
        return physical.PhysicalSink(physical.PhysicalSideOutput(result, self.root.routes), self.root.sinks)

    def results(self) -> PlanNode:
        """Results of a window, and the steps over them."""
        node = self.windowed()
        for step in self.clauses.steps:
            node = physical.PhysicalResultStep(node, step)
        return node

    def windowed(self) -> PlanNode:
        carried = tuple(column_use(column) for column in self.clauses.carried)
        if self.clauses.window is None:
            join = self.clauses.stream_join
            return self.joined(join, None, carried) if join else physical.PhysicalRows(self.released(), carried)
        window = self.keeping(self.window(self.clauses.window), carried)
        aggregation = self.clauses.aggregation
        return window if aggregation is None else physical.PhysicalAggregation(window, _aggregation(aggregation))

    def keeping(self, window: WindowPlan, carried: tuple[ColumnUse, ...]) -> PlanNode:
        """Rows in their windows: those of the stream, or joined ones."""
        join = self.clauses.stream_join
        return self.joined(join, window, carried) if join else physical.PhysicalWindow(self.released(), window, carried)

    def joined(
        self, join: logical.LogicalStreamJoin, window: WindowPlan | None, carried: tuple[ColumnUse, ...]
    ) -> PlanNode:
        _, computed = split_columns(input_columns(self.root), join.join, self.relation)
        where = WHERE if self.clauses.where is not None else None
        fields = JoinFields(join.join, tuple(condition.name for condition in join.on), where, computed)
        return physical.PhysicalStreamJoin(self.released(), window, fields, carried)

    def window(self, node: logical.LogicalWindow) -> WindowPlan:
        window = node.window
        return WindowPlan(
            window.spec,
            late_rule=self.timing.late_rule,
            allowed_lateness_us=node.allowed_lateness_us,
            partition_by=partition_names(window),
            when=c.WHEN if window.when else None,
            open=c.OPEN if window.open else None,
            emit=c.EMIT if window.emit else None,
        )

    def released(self) -> PlanNode:
        """Rows as the window gets them: projected, behind a watermark, duplicates taken out."""
        node, dedupe = self.watermark(self.project(self.source(self.clauses.source))), self.clauses.dedupe
        if dedupe is None:
            return node
        keys = tuple(column_use(key) for key in dedupe.keys)
        return physical.PhysicalDedupe(node, keys, dedupe.within_us, dedupe.sides)

    def watermark(self, child: PlanNode) -> PlanNode:
        timing, deadlines, ticks_for = self.timing, self._deadlines(), self._ticks_for()
        if timing.behind_us is not None:
            return physical.PhysicalResultWatermark(
                child, timing.ordered, deadlines, ticks_for, behind_us=timing.behind_us, late_rule=timing.late_rule
            )
        if timing.mode == "processing_time":
            return physical.PhysicalProcessTimeWatermark(child, timing.ordered, deadlines, ticks_for)
        return physical.PhysicalEventtimeWatermark(
            child,
            timing.ordered,
            deadlines,
            ticks_for,
            lag_us=timing.lag_us,
            max_future_skew_us=timing.max_future_skew_us,
            idle_timeout_us=timing.idle_timeout_us,
            late_rule=timing.late_rule,
        )

    def _deadlines(self) -> physical.Deadlines | None:
        spec = self.clauses.spec
        if spec is None or not spec.triggered:
            return None
        if not spec.looks_ahead():
            return "at_once"
        by_clock = self.timing.mode == "processing_time" and self.timing.behind_us is None
        return "clock" if by_clock else "watermark"

    def _ticks_for(self) -> tuple[str, ...]:
        by_clock, spec, aggregation = self.timing.mode == "processing_time", self.clauses.spec, self.clauses.aggregation
        waiting = {
            "window_end": by_clock and spec is not None and spec.ends_by_time,
            "lookahead": by_clock and spec is not None and spec.looks_ahead(),
            "idle_timeout": self.timing.idle_timeout_us is not None,
            "emit_every": aggregation is not None and aggregation.emit.every_us is not None,
        }
        return tuple(name for name, waits in waiting.items() if waits)

    def project(self, child: PlanNode) -> PlanNode:
        columns, join = input_columns(self.root), self.clauses.stream_join
        if join is not None:
            columns, _ = split_columns(columns, join.join, self.relation)
        where = WHERE if any(column.role == "where" for column in columns) else None
        original = any(route.include_original or route.target == "reinject" for route in self.root.routes)
        return physical.PhysicalProject(child, columns, where, row_error(columns, self.relation.columns), original)

    def source(self, node: PlanNode) -> PlanNode:
        """Where rows come from: streams with their event time, joins, unions."""
        match node:
            case logical.LogicalResults():
                return physical.PhysicalResults(node.columns)
            case logical.LogicalEventTime() if self.timing.mode == "processing_time" and self.timing.behind_us is None:
                return self.source(node.child)
            case logical.LogicalEventTime():
                return physical.PhysicalEventTime(self.source(node.child), node.steps)
            case logical.LogicalJoin():
                return physical.PhysicalStaticJoin(self.source(node.child), node.join, node.relation)
            case logical.LogicalGenerate():
                return physical.PhysicalGenerate(self.source(node.child), node.generator, self.relation.columns)
            case logical.LogicalUnion() | logical.LogicalStreamJoin():
                return physical.PhysicalUnion(tuple(self.source(branch) for branch in node.branches))
            case logical.LogicalBranch():
                return self.branch(node)
            case logical.LogicalSource():
                return physical.PhysicalDataSource(node.stream, node.alias, node.format, node.columns, node.reading)
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where only a source can be")

    def branch(self, node: logical.LogicalBranch) -> PlanNode:
        _, below = _part(node.child, logical.LogicalEventTime)
        if isinstance(below, logical.LogicalJoin):
            known = below.relation.columns
        else:
            named = (logical.LogicalSource, logical.LogicalResults)
            known = (below.columns if isinstance(below, named) else None) or ()
        error = branch_error(node.projection, node.where, known)
        return physical.PhysicalBranch(self.source(node.child), node.projection, node.where, error, known)

    def result_error(self) -> Expr | None:
        aggregation = self.clauses.aggregation
        return result_error(
            segments(self.clauses.steps, self.clauses.projection.outputs),
            aggregation.keys if aggregation else self.clauses.carried,
            aggregation.calls if aggregation else (),
        )


def _aggregation(node: logical.LogicalAggregation) -> Aggregation:
    keys = tuple(column_use(key) for key in node.keys)
    return Aggregation(keys, tuple(physical_call(call) for call in node.calls), node.emit, node.max_groups)
