"""From a physical plan to the core's operators. The same for every host: the test harness and Spark."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.emission import EmitPolicy
from windowpane.core.operators.aggregation import Aggregation, PlainRows, RowEmission
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.base import Operator
from windowpane.core.operators.count_window import CountWindow
from windowpane.core.operators.dedupe import Dedupe
from windowpane.core.operators.intake import Intake, LateGate, ProcessTimeIntake
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.core.operators.merge_session_aggregation import MergeSessionAggregation
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.operators.partial_session_aggregation import PartialSessionAggregation
from windowpane.core.operators.row_windows import AlignedRowWindow, SessionRowWindow
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.operators.sliding import SlidingAggregation, SlidingWindow
from windowpane.core.operators.state_window import StateWindow
from windowpane.core.operators.watermark import EventtimeWatermark, ProcessTimeWatermark
from windowpane.core.side import Key
from windowpane.core.windows import AlignedSpec, Count, Session, Sliding, State
from windowpane.plan import node_fields, physical
from windowpane.plan.eventtime.steps import time_source
from windowpane.plan.node import PlanNode, find, walk
from windowpane.sql.query import Emit


def row_aliases(root: PlanNode) -> dict[str, str]:
    """The columns that operators read, each with the column of the input projection that it is."""
    found: dict[str, str] = {}
    aggregation, window = find_aggregation(root), find_window(root)
    uses = [*(aggregation.keys if aggregation else ()), *_carried(root)]
    dedupe = find(root, physical.PhysicalDedupe)
    uses += dedupe.keys if dedupe else ()
    found |= {use.name: use.column for use in uses}
    if window is not None:
        flags = {c.WHEN: window.when, c.OPEN: window.open, c.EMIT: window.emit}
        found |= {name: column for name, column in flags.items() if column is not None}
    return found


def time_sources(root: PlanNode) -> tuple[str, ...]:
    """Where rows of this plan may get their time from; one only: all of them do."""
    nodes = [node for node in walk(root) if isinstance(node, physical.PhysicalEventTime)]
    found = dict.fromkeys(time_source(step) for node in nodes for step in node.steps)
    return tuple(found) or ("processing_time",)


def falls_back_to_clock(root: PlanNode) -> bool:
    """Whether a row's time is in one place, and otherwise that of its micro-batch."""
    nodes = [node for node in walk(root) if isinstance(node, physical.PhysicalEventTime)]
    last = [step.origin for node in nodes for step in node.steps[1:]]
    return last == ["processing_time"] * len(nodes) and len(time_sources(root)) == 2


def find_aggregation(root: PlanNode) -> node_fields.Aggregation | None:
    fused = find(root, physical.PhysicalStreamingAggregation)
    unfused = find(root, physical.PhysicalAggregation)
    node = fused or unfused
    return node.aggregation if node else None


def find_window(root: PlanNode) -> node_fields.WindowPlan | None:
    fused = find(root, physical.PhysicalStreamingAggregation)
    node = fused or find(root, physical.PhysicalWindow)
    return node.window if node else None


def _carried(root: PlanNode) -> tuple[node_fields.ColumnUse, ...]:
    """What a query without aggregates keeps of each row."""
    window = find(root, physical.PhysicalWindow)
    if window is not None:
        return window.carried
    rows = find(root, physical.PhysicalRows)
    return rows.carried if rows else ()


def build_operators(
    root: PlanNode,
    schema: pa.Schema,
    *,
    streams: Collection[str] = (),
    data_driven: bool = True,
    broadcast: bool = False,
) -> list[Operator]:
    """The operators of a plan, in order, for rows of `schema` (internal names, as `row_aliases` gives them).

    `broadcast`: sliding triggers come to every shard as messages.
    """
    aggregation = find_aggregation(root)
    keys = tuple(Key(use.name, use.label) for use in aggregation.keys) if aggregation else ()
    operators = [*_intake(root, keys), _watermark(root, streams, data_driven=data_driven)]
    dedupe = find(root, physical.PhysicalDedupe)
    if dedupe is not None:
        slack_us = _slack_us(find_window(root))
        by = [use.name for use in dedupe.keys]
        operators.append(Dedupe(by, dedupe.within_us, slack_us=slack_us, keys=keys))
    return operators + _window_operators(root, keys, schema, broadcast=broadcast)


def _intake(root: PlanNode, keys: tuple[Key, ...]) -> list[Operator]:
    event_time = find(root, physical.PhysicalEventtimeWatermark)
    if event_time is None:
        return [ProcessTimeIntake(keys)]
    row_rule = event_time.ordered or event_time.late_rule == "row"
    return [Intake(keys, max_future_skew_us=event_time.max_future_skew_us), *([LateGate(keys)] if row_rule else [])]


def _watermark(root: PlanNode, streams: Collection[str], *, data_driven: bool) -> Operator:
    event_time = find(root, physical.PhysicalEventtimeWatermark)
    if event_time is None:
        return ProcessTimeWatermark()
    return EventtimeWatermark(
        lag_us=event_time.lag_us,
        streams=streams,
        idle_timeout_us=event_time.idle_timeout_us,
        ordered=event_time.ordered,
        data_driven=data_driven,
    )


def _slack_us(window: node_fields.WindowPlan | None) -> int:
    """How far behind the watermark a row may be and still count."""
    return window.spec.slack_us() + window.allowed_lateness_us if window else 0


def _window_operators(root: PlanNode, keys: tuple[Key, ...], schema: pa.Schema, *, broadcast: bool) -> list[Operator]:
    window, aggregation = find_window(root), find_aggregation(root)
    if window is None:
        return [PlainRows()]
    if aggregation is None:
        return [_row_window(window, ()), RowEmission()]
    aggregator = Aggregator([_call(call) for call in aggregation.calls], [key.name for key in keys], schema)
    fused = find(root, physical.PhysicalStreamingAggregation)
    if fused is None:
        return [_row_window(window, keys, broadcast=broadcast), Aggregation(keys, aggregator)]
    return _streaming(fused, keys, aggregator)


def _streaming(
    node: physical.PhysicalStreamingAggregation, keys: tuple[Key, ...], aggregator: Aggregator
) -> list[Operator]:
    window, max_groups, per_window = node.window, node.aggregation.max_groups, node.pane_us is None
    policy = _policy(node.aggregation.emit)
    match window.spec:
        case AlignedSpec():
            aligned = AlignedPlan(window.spec, keys, window.allowed_lateness_us, max_groups, per_window=per_window)
            return [PartialAggregation(aligned, aggregator), MergeAggregation(aligned, aggregator, policy)]
        case Session():
            session = SessionPlan(window.spec, keys, window.allowed_lateness_us)
            return [
                PartialSessionAggregation(session, aggregator),
                MergeSessionAggregation(session, aggregator, policy),
            ]
        case Sliding():
            conditional = window.when is not None
            return [SlidingAggregation(window.spec, window.partition_by, keys, aggregator, conditional=conditional)]
    raise AssertionError(f"{window.spec} is never fused")


def _row_window(window: node_fields.WindowPlan, keys: tuple[Key, ...], *, broadcast: bool = False) -> Operator:
    match window.spec:
        case AlignedSpec():
            return AlignedRowWindow(AlignedPlan(window.spec, keys, window.allowed_lateness_us))
        case Session():
            return SessionRowWindow(SessionPlan(window.spec, keys, window.allowed_lateness_us))
        case Sliding():
            return SlidingWindow(
                window.spec, window.partition_by, keys, conditional=window.when is not None, broadcast=broadcast
            )
        case Count():
            return CountWindow(window.spec, window.partition_by)
        case State():
            return StateWindow(window.spec, window.partition_by)
    raise AssertionError(f"no operator keeps the rows of {window.spec}")


def _call(call: node_fields.PhysicalCall) -> Call:
    return Call(call.name, call.function, call.args, call.params, call.distinct, call.filter)


def _policy(emit: Emit) -> EmitPolicy:
    return EmitPolicy(emit.mode != "close", emit.every_us)
