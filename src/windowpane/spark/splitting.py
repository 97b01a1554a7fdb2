"""On the driver: the graph of a plan's operators, cut at each shuffle into the fold stage and the stateful stages.

The fold stage folds rows if it knows the watermark before the micro-batch. Only a pipeline feeds it back; without
feedback, rows are sent as they are, and the first stateful stage decides which are late.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
from pyspark import cloudpickle

from windowpane.core.accumulators import user_classes
from windowpane.core.aggregation import empty_batch
from windowpane.core.graph import Graph
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.plan.build import Plan
from windowpane.plan.lateness import lateness_judge
from windowpane.plan.operators import build_graph
from windowpane.spark.stages import Stages


def split_stages(
    plan: Plan, sent: pa.Schema, *, shards: int, feedback: bool, spread: bool = True
) -> tuple[Stages, pa.Schema]:
    """The stages of a plan for rows of schema `sent`, and the schema of their emissions.

    `spread`: rows may be shuffled more than once.
    """
    planned = plan.stages if spread else plan.stages.in_one_shuffle()
    read, window = planned.input, planned.first_window
    fallback = feedback and read.clock_fallback
    bare = Stages(
        templates=(),
        routes=(),
        aliases=read.aliases,
        stream=read.streams[0],
        shards=shards,
        feedback=feedback,
        time_source=read.time_sources[0] if len(read.time_sources) == 1 or fallback else None,
        clock_fallback=fallback,
    )
    rows = {read.name: bare.complete_rows(empty_batch(sent), 0).schema}
    graph = build_graph(planned, rows, feedback=feedback, sharded=True)
    if plan.keep_closed_us is not None:
        for node in graph.nodes:
            if isinstance(node.operator, MergeAggregation):
                node.operator.keeps_closed = True
    steps = graph.cut()
    folding = [node.operator for node in graph.nodes if node.operator.folds and not node.stage]
    stages = replace(
        bare,
        templates=tuple(map(_pickled, steps)),
        routes=tuple(step.routes() for step in steps),
        arrival_states=tuple(name for operator in folding for name in operator.arrival_states),
        judge=lateness_judge(planned) if feedback else None,
        ordered=window.admits or not folding or any(operator.is_ordered for operator in folding),
    )
    return stages, graph.schemas(rows)[graph.exits[0]]


def _pickled(graph: Graph) -> bytes:
    """Users' aggregates are taken along by value: workers may not be able to import their modules."""
    if user_classes():
        return bytes(cloudpickle.dumps(graph))  # type: ignore[no-untyped-call]
    try:
        return pickle.dumps(graph)
    except Exception:  # noqa: BLE001  # a lambda: cloudpickle takes it along
        return bytes(cloudpickle.dumps(graph))  # type: ignore[no-untyped-call]
