"""The pipelines that the core's benchmark measures: the core's own operators, without Spark and without SQL."""

from __future__ import annotations

import pyarrow as pa
from core_streams import KEY, Pipeline, aggregator_for

from windowpane.core.aggregation import Call
from windowpane.core.emission import EmitPolicy
from windowpane.core.operators.aggregation import Aggregation
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.operators.merge_aggregation import MergeAggregation
from windowpane.core.operators.merge_session_aggregation import MergeSessionAggregation
from windowpane.core.operators.partial_aggregation import PartialAggregation
from windowpane.core.operators.partial_session_aggregation import PartialSessionAggregation
from windowpane.core.operators.row_windows import AlignedRowWindow
from windowpane.core.operators.sessions import SessionPlan
from windowpane.core.operators.sliding import SlidingAggregation
from windowpane.core.side import Key
from windowpane.core.windows import Hopping, Session, Sliding, Tumbling

KEYS = (Key(KEY, "k"),)


def streaming(spec: Tumbling | Hopping | Session, rows: pa.RecordBatch) -> Pipeline:
    """Both halves of a streaming aggregation; `rows` are any of the stream's."""
    aggregator = aggregator_for(rows)
    if isinstance(spec, Session):
        plan = SessionPlan(spec, KEYS)
        partial = PartialSessionAggregation(plan, aggregator)
        return Pipeline([partial, MergeSessionAggregation(plan, aggregator, EmitPolicy())])
    aligned = AlignedPlan(spec, KEYS)
    return Pipeline([PartialAggregation(aligned, aggregator), MergeAggregation(aligned, aggregator, EmitPolicy())])


def rows_kept(spec: Tumbling | Hopping, rows: pa.RecordBatch) -> Pipeline:
    """The same results without accumulators: rows are kept, and aggregated when the window closes."""
    return Pipeline([AlignedRowWindow(AlignedPlan(spec, KEYS)), Aggregation(KEYS, aggregator_for(rows))])


def sliding(spec: Sliding, call: Call, rows: pa.RecordBatch, *, per_key: bool) -> Pipeline:
    partition_by, keys = ((KEY,), KEYS) if per_key else ((), ())
    aggregator = aggregator_for(rows, [call], partition_by)
    return Pipeline([SlidingAggregation(spec, partition_by, keys, aggregator, conditional=False)])
