"""On the driver: which operators of a plan run before the shuffle (fold stage) and which after it (merge stage).

The fold stage folds rows where it can. For that it must know the watermark before the micro-batch, which only our own
sinks feed back; without feedback rows travel as they are and the merge stage does all the judging.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import cloudpickle

from windowpane.core.aggregation import empty_batch
from windowpane.core.operators.base import Operator
from windowpane.core.operators.intake import Intake, LateGate
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.operators.partial_session_aggregation import PartialSessionAggregation
from windowpane.plan import physical
from windowpane.plan.build import Plan
from windowpane.plan.node import find
from windowpane.plan.operators import build_operators, falls_back_to_clock, find_aggregation, row_aliases, time_sources
from windowpane.plan.placement import place
from windowpane.spark.stages import Stages


def split_stages(plan: Plan, sent: pa.Schema, *, shards: int, feedback: bool) -> tuple[Stages, list[Operator]]:
    """The stages of a plan for rows of schema `sent`, and all its operators in order."""
    split = _Split(plan, feedback)
    streams = tuple(dict.fromkeys(ref.name for ref in plan.query.relation.streams))
    aliases, sources = tuple(row_aliases(plan.physical).items()), time_sources(plan.physical)
    fallback, placed = feedback and falls_back_to_clock(plan.physical), place(plan.physical)
    source = sources[0] if len(sources) == 1 or fallback else None
    bare = Stages(
        b"", b"", aliases, streams[0], placed.route_by, shards, feedback, source, fallback, placed.broadcast
    )  # fmt: skip
    schema = bare.complete_rows(empty_batch(sent), 0).schema
    operators = build_operators(
        plan.physical, schema, streams=streams if len(streams) > 1 else (), broadcast=placed.broadcast
    )
    fold = [operator for operator in operators if split.in_fold_stage(operator)]
    merge = [operator for operator in operators if not split.in_fold_stage(operator)]
    aggregating = [each for each in operators if isinstance(each, PartialAggregation | PartialSessionAggregation)]
    kept = tuple(name for operator in aggregating for name in operator.arrival_states)
    stages = replace(bare, fold_template=_pickled(fold), merge_template=_pickled(merge), arrival_states=kept)
    ordered = not aggregating or split.admits or any(operator.is_ordered for operator in aggregating)
    return replace(stages, ordered=ordered), operators


def _pickled(operators: list[Operator]) -> bytes:
    """Operators and accumulators by reference, a user's own aggregate by value."""
    try:
        return pickle.dumps(operators)
    except Exception:  # noqa: BLE001  # a class of __main__ or a lambda: cloudpickle takes it along
        return bytes(cloudpickle.dumps(operators))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Split:
    plan: Plan
    feedback: bool

    @property
    def _dedupes(self) -> bool:
        return find(self.plan.physical, physical.PhysicalDedupe) is not None

    @property
    def _limited(self) -> bool:
        aggregation = find_aggregation(self.plan.physical)
        return aggregation is not None and aggregation.max_groups is not None

    @property
    def admits(self) -> bool:
        """Which rows are taken depends on rows that came before: with a quota or dedupe."""
        return self._limited or self._dedupes

    @property
    def folds(self) -> bool:
        """Rows become partial accumulators before the shuffle.

        Not with a quota or dedupe: who is admitted depends on rows of all tasks.
        """
        fused = find(self.plan.physical, physical.PhysicalStreamingAggregation) is not None
        return self.feedback and fused and not self.admits

    def in_fold_stage(self, operator: Operator) -> bool:
        if isinstance(operator, Intake):
            return True
        if isinstance(operator, LateGate):
            return self.feedback
        return isinstance(operator, PartialAggregation | PartialSessionAggregation) and self.folds
