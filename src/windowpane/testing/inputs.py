"""The way into the operators without Spark: decoded rows of a stream to the columns that cross, as the plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.errors import InternalError, PlanError
from windowpane.evaluation.reasons import EVALUATION_ERROR
from windowpane.evaluation.unix_times import ParsedTimes
from windowpane.plan import physical
from windowpane.plan.evaluation import conditions_of
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.plan.guard import row_error_detail
from windowpane.plan.node import PlanNode
from windowpane.plan.stages import InputStage
from windowpane.testing.decode import Decoded
from windowpane.testing.expressions import ROW, Expressions
from windowpane.testing.joins import TableJoin

FARTHEST_US = 2**62
"""Event times beyond this (some 146,000 years) cannot be computed with, and are errors."""

_TS, _TS_ERROR, _BRANCH_KEEP = c.EVENT_TIME, physical.TIME_ERROR, "_branch_keep"
HIDDEN = (ROW, _TS, _TS_ERROR, _BRANCH_KEEP)


@dataclass(frozen=True)
class Pushed:
    """A micro-batch of one stream's shard."""

    stream: str
    shard: str
    decoded: Decoded
    clock_us: int
    first_arrival: int


class InputEvaluator:
    """Evaluates everything below the watermark: event time, joins, branches, the input projection."""

    def __init__(self, stage: InputStage, types: EventtimeTypes, expressions: Expressions) -> None:
        self._stage, self._types, self._expressions = stage, types, expressions
        self.time_sources: Counter[str] = Counter()
        """How many rows got their time from where."""

    def rows(self, pushed: Pushed) -> pa.RecordBatch:
        """The rows as operators take them."""
        source = self._source(self._stage.source, pushed)
        if source is None:
            raise InternalError("PLAN_SHAPE", f"no source of the plan reads stream `{pushed.stream}`")
        projected = self._projected(source)
        columns = self._core_columns(pushed, source, projected)
        for name, column in self._stage.aliases:
            columns[name] = projected.column(column)
        for name in projected.column_names:
            columns.setdefault(name, projected.column(name))
        table = pa.table(columns)
        return table.combine_chunks().to_batches()[0] if table.num_rows else empty_batch(table.schema)

    def schema(self, pushed: Pushed) -> pa.Schema:
        """Types of the columns that cross, from an empty micro-batch."""
        return self.rows(pushed).schema

    def _projected(self, source: pa.Table) -> pa.Table:
        """The input projection with its WHERE flag and error reason."""
        conditions = conditions_of(self._stage.columns)
        columns = {
            column.name: self._expressions.under(column.expr.text, conditions[column.name], source.schema)
            for column in self._stage.columns
        }
        guard = self._stage.error.text if self._stage.error is not None else None
        found, reasons = self._evaluated(source, columns | {ROW: ROW}, guard)
        return found.append_column(c.ERROR, reasons)

    def _evaluated(self, table: pa.Table, columns: Mapping[str, str], guard: str | None) -> tuple[pa.Table, pa.Array]:
        """Columns, and for rows on which one has failed the reason, by the guard if it has a name for it."""
        found, failed = self._expressions.evaluate(table, columns)
        nothing = pa.nulls(table.num_rows, pa.string())
        if failed is None:
            return found, nothing
        told = pa.repeat(pa.scalar(EVALUATION_ERROR), table.num_rows)
        if guard is not None:
            named = self._expressions.select(table, {"reason": guard}).column("reason").combine_chunks()
            told = pc.coalesce(named.cast(pa.string()), told)
        return found, pc.if_else(failed, told, nothing)

    def _core_columns(self, pushed: Pushed, source: pa.Table, projected: pa.Table) -> dict[str, pa.Array]:
        rows = source.column(ROW).to_numpy()
        problems = pa.array(pushed.decoded.problems, pa.string()).take(pa.array(rows))
        reason, detail = self._errors(source, projected, problems)
        keep = self._keep(source, projected)
        arrival = pushed.first_arrival + np.arange(len(rows), dtype=np.int64)
        return {
            c.EVENT_TIME: source.column(_TS),
            c.ARRIVAL: pa.array(arrival),
            c.SOURCE_PARTITION: pa.repeat(pa.scalar(pushed.shard), len(rows)),
            c.KEEP: keep,
            c.ERROR: reason,
            c.DETAIL: detail,
            c.EVENT: pushed.decoded.events.take(pa.array(rows)),
        }

    def _keep(self, source: pa.Table, projected: pa.Table) -> pa.Array:
        keep = pa.repeat(pa.scalar(value=True), source.num_rows)
        if self._stage.where is not None:
            keep = pc.fill_null(projected.column(self._stage.where), fill_value=False)
        if _BRANCH_KEEP in source.column_names:
            keep = pc.and_(keep, pc.fill_null(source.column(_BRANCH_KEEP), fill_value=False))
        return keep

    def _errors(self, source: pa.Table, projected: pa.Table, problems: pa.Array) -> tuple[pa.Array, pa.Array]:
        """First what could not be read, then what has no time, then what cannot be evaluated."""
        undecodable = pc.if_else(problems.is_valid(), "decode_error", pa.scalar(None, pa.string()))
        parts = [undecodable, source.column(_TS_ERROR)]
        reasons = projected.column(c.ERROR)
        if _BRANCH_KEEP in source.column_names:
            kept = pc.fill_null(source.column(_BRANCH_KEEP), fill_value=False)
            reasons = pc.if_else(kept, reasons, pa.scalar(None, pa.string()))
        parts.append(reasons)
        reason = pc.coalesce(*parts)
        computed = row_error_detail(self._stage.columns, self._stage.relation.columns)
        if computed is None:
            return reason, problems
        details = self._expressions.select(source, {"detail": computed}).column("detail").cast(pa.string())
        failed = pc.and_(reason.is_valid(), source.column(_TS_ERROR).is_null())
        return reason, pc.coalesce(problems, pc.if_else(failed, details, pa.scalar(None, pa.string())))

    def _source(self, node: PlanNode, pushed: Pushed) -> pa.Table | None:
        """The rows of FROM for this stream, with the hidden columns; None where the node does not read it."""
        match node:
            case physical.PhysicalDataSource():
                return self._data(node, pushed)
            case physical.PhysicalEventTime():
                below = self._source(node.child, pushed)
                return None if below is None else self._timed(below, node.steps, pushed)
            case physical.PhysicalUnion():
                found = (self._source(branch, pushed) for branch in node.branches)
                return next((table for table in found if table is not None), None)
            case physical.PhysicalBranch():
                below = self._source(node.child, pushed)
                return None if below is None else self._branch(node, below)
            case physical.PhysicalStaticJoin():
                below = self._source(node.child, pushed)
                return None if below is None else self._joined(node, below)
        raise InternalError("PLAN_SHAPE", f"the harness does not know {node.name}")

    def _data(self, node: physical.PhysicalDataSource, pushed: Pushed) -> pa.Table | None:
        if node.stream != pushed.stream:
            return None
        table, count = pushed.decoded.table, pushed.decoded.table.num_rows
        table = table.append_column(ROW, pa.array(np.arange(count, dtype=np.int64)))
        table = table.append_column(_TS, pa.repeat(pa.scalar(pushed.clock_us, pa.int64()), count))
        return table.append_column(_TS_ERROR, pa.nulls(count, pa.string()))

    def _timed(self, table: pa.Table, steps: tuple[TimeStep, ...], pushed: Pushed) -> pa.Table:
        """Resolve each row's event time: the first step that yields a value wins."""
        count = table.num_rows
        times, reasons = pa.nulls(count, pa.int64()), pa.nulls(count, pa.string())
        for step in steps:
            values, failed = self._step(table, step, pushed)
            open_rows = pc.and_(times.is_null(), reasons.is_null())
            found = pc.and_(open_rows, values.is_valid())
            self.time_sources[step.origin] += int(pc.sum(found).as_py() or 0)
            if step.on_failure == "error":
                missing = pc.if_else(failed, "event_time_parse", "event_time_null")
                reasons = pc.if_else(pc.and_(open_rows, values.is_null()), missing, reasons)
            times = pc.if_else(found, values, times)
        table = table.set_column(table.schema.get_field_index(_TS), _TS, times)
        return table.set_column(table.schema.get_field_index(_TS_ERROR), _TS_ERROR, reasons)

    def _step(self, table: pa.Table, step: TimeStep, pushed: Pushed) -> tuple[pa.Array, pa.Array]:
        count = table.num_rows
        if step.origin == "processing_time":
            # A row that could not be read would move the watermark to the clock.
            readable = pa.array(pushed.decoded.problems, pa.string()).take(table.column(ROW)).is_null()
            now = pc.if_else(readable, pa.scalar(pushed.clock_us, pa.int64()), pa.scalar(None, pa.int64()))
            return now, pa.repeat(pa.scalar(value=False), count)
        if step.origin == "source":
            return pa.nulls(count, pa.int64()), pa.repeat(pa.scalar(value=False), count)
        found, broken = self._expressions.evaluate(table, {"value": step.text})
        values, failed = self._parsed(table, step, found.column("value").combine_chunks())
        if broken is not None:
            failed = pc.or_(failed, broken)
        far = pc.fill_null(pc.greater(pc.abs_checked(pc.fill_null(values, 0)), FARTHEST_US), fill_value=False)
        return pc.if_else(far, None, values), pc.or_(failed, far)

    def _parsed(self, table: pa.Table, step: TimeStep, column: pa.Array) -> ParsedTimes:
        """By the type's Arrow function, else by its template."""
        parser = self._types.resolve(step.type).parser
        if parser.arrow is not None:
            return parser.arrow(column)
        if not isinstance(parser.sql, str):
            raise PlanError(
                "UNSUPPORTED_IN_HARNESS",
                f"event-time type `{step.type}` has neither an Arrow parser nor a template",
                "register it with one: EventtimeParser(sql=…, arrow=…)",
            )
        computed = self._expressions.select(table, {"value": parser.spark_sql(step.text)}).column("value")
        values = computed.combine_chunks().cast(pa.int64())
        return values, pc.and_(column.is_valid(), values.is_null())

    def _branch(self, node: physical.PhysicalBranch, table: pa.Table) -> pa.Table:
        where = [node.where.text] if node.where is not None else []
        columns = {name: self._expressions.under(expr.text, where, table.schema) for name, expr in node.projection}
        columns |= {name: name for name in HIDDEN if name in table.column_names}
        if node.where is not None:
            columns[_BRANCH_KEEP] = node.where.text
        found, reasons = self._evaluated(table, columns, node.error.text if node.error is not None else None)
        known = pc.coalesce(found.column(_TS_ERROR), reasons)
        return found.set_column(found.schema.get_field_index(_TS_ERROR), _TS_ERROR, known)

    def _joined(self, node: physical.PhysicalStaticJoin, table: pa.Table) -> pa.Table:
        return TableJoin(self._stage.relation, node.join, self._expressions, _BRANCH_KEEP).apply(table)
