"""Logical to physical: one physical node per logical one, watermark and input projection put in below the window."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.core import columns as c
from windowpane.core.windows import Sliding, WindowSpec
from windowpane.errors import InternalError
from windowpane.plan import logical, physical
from windowpane.plan.eventtime.timing import Timing
from windowpane.plan.guard import branch_error, result_error, row_error
from windowpane.plan.inputs import WHERE, column_use, input_columns, partition_names, physical_call
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import Aggregation, WindowPlan
from windowpane.plan.traversal import find
from windowpane.sql.query import Expr, GroupKey, Relation


def lower(root: logical.LogicalSink, timing: Timing, relation: Relation) -> PlanNode:
    """The physical plan of a logical one, no rule applied yet."""
    return _Lowering(root, timing, relation).node(root)


@dataclass(frozen=True)
class _Lowering:
    root: logical.LogicalSink
    timing: Timing
    relation: Relation

    def node(self, node: PlanNode) -> PlanNode:
        """Results: from the sink down to the window."""
        match node:
            case logical.LogicalSink():
                side = physical.PhysicalSideOutput(self.node(node.child), node.routes)
                return physical.PhysicalSink(side, node.sinks)
            case logical.LogicalProjection():
                return physical.PhysicalFinalProject(self.node(node.child), node.outputs, self.result_error(node))
            case logical.LogicalLimit(child=logical.LogicalSort() as sort):
                return physical.PhysicalTopN(self.node(sort.child), sort.order, node.limit)
            case logical.LogicalSort():
                return physical.PhysicalSort(self.node(node.child), node.order)
            case logical.LogicalHaving():
                return physical.PhysicalHaving(self.node(node.child), node.condition)
            case logical.LogicalAggregation():
                return physical.PhysicalAggregation(self.node(node.child), _aggregation(node))
            case logical.LogicalWindow():
                return self.window(node)
            case logical.LogicalRows():
                carried = tuple(column_use(column) for column in node.carried)
                return physical.PhysicalRows(self.released(node.child), carried)
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where no window or result can be")

    def window(self, node: logical.LogicalWindow) -> PlanNode:
        window = node.window
        plan = WindowPlan(
            window.spec, self.timing.late_rule, node.allowed_lateness_us, partition_names(window),
            c.WHEN if window.when else None, c.OPEN if window.open else None, c.EMIT if window.emit else None,
        )  # fmt: skip
        carried = tuple(column_use(column) for column in node.carried)
        return physical.PhysicalWindow(self.released(node.child), plan, carried)

    def released(self, node: PlanNode) -> PlanNode:
        """Rows as the window gets them: projected, behind a watermark, duplicates taken out."""
        if isinstance(node, logical.LogicalDedupe):
            keys = tuple(column_use(key) for key in node.keys)
            return physical.PhysicalDedupe(self.released(node.child), keys, node.within_us)
        below = node.child if isinstance(node, logical.LogicalFilter) else node
        return self.watermark(self.project(self.source(below)))

    def watermark(self, child: PlanNode) -> PlanNode:
        timing = self.timing
        shared = timing.ordered, self._deadlines(), self._ticks_for()
        if timing.mode == "processing_time":
            return physical.PhysicalProcessTimeWatermark(child, *shared)
        return physical.PhysicalEventtimeWatermark(
            child, *shared, timing.lag_us, timing.max_future_skew_us, timing.idle_timeout_us, timing.late_rule
        )

    def _spec(self) -> WindowSpec | None:
        node = find(self.root, logical.LogicalWindow)
        return node.window.spec if node else None

    def _deadlines(self) -> physical.Deadlines | None:
        spec = self._spec()
        if not isinstance(spec, Sliding):
            return None
        if spec.lookahead_us is None:
            return "at_once"
        return "clock" if self.timing.mode == "processing_time" else "watermark"

    def _ticks_for(self) -> tuple[str, ...]:
        by_clock, spec = self.timing.mode == "processing_time", self._spec()
        aggregation = find(self.root, logical.LogicalAggregation)
        waiting = {
            "window_end": by_clock and spec is not None and spec.ends_by_time,
            "lookahead": self._deadlines() == "clock",
            "idle_timeout": self.timing.idle_timeout_us is not None,
            "emit_every": aggregation is not None and aggregation.emit.every_us is not None,
        }
        return tuple(name for name, waits in waiting.items() if waits)

    def project(self, child: PlanNode) -> PlanNode:
        columns = input_columns(self.root)
        where = WHERE if any(column.role == "where" for column in columns) else None
        original = any(route.include_original or route.target == "reinject" for route in self.root.routes)
        return physical.PhysicalProject(child, columns, where, row_error(columns, self.relation.columns), original)

    def source(self, node: PlanNode) -> PlanNode:
        """Where rows come from: streams with their event time, joins, unions."""
        match node:
            case logical.LogicalEventTime() if self.timing.mode == "processing_time":
                return self.source(node.child)
            case logical.LogicalEventTime():
                return physical.PhysicalEventTime(self.source(node.child), node.steps)
            case logical.LogicalJoin():
                return physical.PhysicalStaticJoin(self.source(node.child), node.join)
            case logical.LogicalUnion():
                return physical.PhysicalUnion(tuple(self.source(branch) for branch in node.branches))
            case logical.LogicalBranch():
                return self.branch(node)
            case logical.LogicalSource():
                return physical.PhysicalDataSource(node.stream, node.alias, node.format, node.columns)
        raise InternalError("PLAN_SHAPE", f"{node.name} stands where only a source can be")

    def branch(self, node: logical.LogicalBranch) -> PlanNode:
        source = find(node, logical.LogicalSource)
        known = (source.columns if source else None) or ()
        error = branch_error(node.projection, node.where, known)
        return physical.PhysicalBranch(self.source(node.child), node.projection, node.where, error, known)

    def result_error(self, node: logical.LogicalProjection) -> Expr | None:
        having, sort = find(node, logical.LogicalHaving), find(node, logical.LogicalSort)
        aggregation = find(node, logical.LogicalAggregation)
        results = [output.expr for output in node.outputs] + [key.expr for key in (sort.order if sort else ())]
        keys = aggregation.keys if aggregation else self._carried(node)
        calls = aggregation.calls if aggregation else ()
        return result_error(results, having.condition if having else None, keys, calls)

    def _carried(self, node: PlanNode) -> tuple[GroupKey, ...]:
        rows = find(node, logical.LogicalRows) or find(node, logical.LogicalWindow)
        return rows.carried if rows else ()


def _aggregation(node: logical.LogicalAggregation) -> Aggregation:
    keys = tuple(column_use(key) for key in node.keys)
    return Aggregation(keys, tuple(physical_call(call) for call in node.calls), node.emit, node.max_groups)
