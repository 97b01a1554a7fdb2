"""The way into the operators without Spark: decoded rows of a stream to the columns that cross, as the plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.errors import InternalError
from windowpane.evaluation.event_times import EventTimes, whole_column
from windowpane.evaluation.generated_rows import GeneratedRows
from windowpane.evaluation.made_rows import MadeRows
from windowpane.plan import physical
from windowpane.plan.eventtime.harness_times import harness_times
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.stages import InputStage
from windowpane.sql.query import Generator
from windowpane.testing.decode import Decoded
from windowpane.testing.expressions import ROW, Expressions, compiler
from windowpane.testing.joins import TableJoin

_CARRIED = (c.UNMATCHED, c.SOURCE_PARTITION, ROW, c.CORRUPT, c.MADE, c.ORIGIN)
_WHERE, _ELEMENTS = "_branch_where", "_elements"
_Above: TypeAlias = (
    physical.PhysicalEventTime | physical.PhysicalBranch | physical.PhysicalStaticJoin | physical.PhysicalGenerate
)
"""Nodes over others that give rows of a stream."""


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
        self._times: dict[tuple[tuple[TimeStep, ...], pa.Schema], EventTimes] = {}
        self.time_sources: Counter[str] = Counter()
        """How many rows got their time from where."""

    def rows(self, pushed: Pushed) -> pa.RecordBatch:
        """The rows as operators take them."""
        source = self._source(self._stage.source, pushed)
        if source is None:
            raise InternalError("PLAN_SHAPE", f"no source of the plan reads stream `{pushed.stream}`")
        found = self._projected(source, self._stage.columns, self._stage.where, pushed)
        self._count(found)
        columns = {name: found.column(name) for name in found.column_names if name not in (c.TIME_SOURCE, c.CORRUPT)}
        columns |= self._core_columns(pushed, found)
        columns |= {name: columns[column] for name, column in self._stage.aliases}
        table = pa.table(columns)
        whole = table.combine_chunks().to_batches()[0] if table.num_rows else empty_batch(table.schema)
        return MadeRows().marked(whole)

    def schema(self, pushed: Pushed) -> pa.Schema:
        """Types of the columns that cross, from an empty micro-batch."""
        return self.rows(pushed).schema

    def _projected(
        self, source: pa.Table, columns: Sequence[InputColumn], where: str | None, pushed: Pushed
    ) -> pa.Table:
        projection = self._expressions.projection(columns, where, source.schema)
        continued = replace(projection, carried=_CARRIED, continued=True)
        return pa.Table.from_batches([continued.rows(source, pushed.clock_us)])

    def _count(self, rows: pa.Table) -> None:
        if c.TIME_SOURCE in rows.column_names:
            for code, count in zip(*np.unique(rows.column(c.TIME_SOURCE).drop_null(), return_counts=True), strict=True):
                self.time_sources[c.TIME_SOURCES[code]] += int(count)

    def _core_columns(self, pushed: Pushed, rows: pa.Table) -> dict[str, pa.Array]:
        """Columns that operators expect, and that are only there if a row needs them."""
        count = rows.num_rows
        columns = {
            c.ARRIVAL: pa.array(pushed.first_arrival + np.arange(count, dtype=np.int64)),
            c.EVENT: pushed.decoded.events.take(rows.column(ROW).combine_chunks()),
        }
        if c.KEEP not in rows.column_names:
            columns[c.KEEP] = pa.repeat(pa.scalar(value=True), count)
        if c.ERROR not in rows.column_names:
            columns |= {c.ERROR: pa.nulls(count, pa.string()), c.DETAIL: pa.nulls(count, pa.string())}
        return columns

    def _source(self, node: PlanNode, pushed: Pushed) -> pa.Table | None:
        """The rows of FROM for this stream, with internal columns; None where the node does not read it."""
        match node:
            case physical.PhysicalDataSource():
                return _data(pushed, node) if node.stream == pushed.stream else None
            case physical.PhysicalUnion():
                found = [self._source(branch, pushed) for branch in node.branches]
                return _united([table for table in found if table is not None])
        if isinstance(node, _Above):
            below = self._source(node.child, pushed)
            return None if below is None else self._over(node, below, pushed)
        raise InternalError("PLAN_SHAPE", f"the harness does not know {node.name}")

    def _over(self, node: _Above, rows: pa.Table, pushed: Pushed) -> pa.Table:
        if isinstance(node, physical.PhysicalStaticJoin):
            if c.ORIGIN not in rows.column_names:
                rows = rows.append_column(c.ORIGIN, pa.array(np.arange(rows.num_rows)))
            return TableJoin(node.relation, node.join, self._expressions, c.KEEP).apply(rows)
        if isinstance(node, physical.PhysicalGenerate):
            return self._generated(node.generator, rows, pushed)
        if isinstance(node, physical.PhysicalEventTime):
            if (node.steps, rows.schema) not in self._times:
                self._times[node.steps, rows.schema] = harness_times(node.steps, self._types, compiler(rows.schema))
            return _with_columns(
                rows, _for_kept(self._times[node.steps, rows.schema].resolve(rows, pushed.clock_us), rows)
            )
        columns = [InputColumn(name, expr, "key") for name, expr in node.projection]
        if node.where is not None:
            columns.append(InputColumn(_WHERE, node.where, "where"))
        found = self._projected(rows, columns, _WHERE if node.where is not None else None, pushed)
        return found.drop_columns([_WHERE]) if node.where is not None else found

    def _generated(self, generator: Generator, rows: pa.Table, pushed: Pushed) -> pa.Table:
        found = self._projected(rows, [InputColumn(_ELEMENTS, generator.argument, "key")], None, pushed)
        rows = _with_columns(
            rows, {name: found.column(name) for name in (c.ERROR, c.DETAIL) if name in found.column_names}
        )
        names = tuple(column.name for column in generator.values)
        made = GeneratedRows(names, fields=generator.fields, position=generator.position, outer=generator.outer)
        return made.of(rows, whole_column(found, _ELEMENTS))


def _for_kept(times: dict[str, pa.Array], rows: pa.Table) -> dict[str, pa.Array]:
    """A row without elements has no time that could be missing."""
    if c.MADE not in rows.column_names or c.KEEP not in rows.column_names or c.ERROR not in times:
        return times
    kept = pc.fill_null(whole_column(rows, c.KEEP), True)
    none = pa.scalar(None, pa.string())
    return times | {name: pc.if_else(kept, times[name], none) for name in (c.ERROR, c.DETAIL)}


def _data(pushed: Pushed, node: physical.PhysicalDataSource) -> pa.Table:
    table, count, stamps = pushed.decoded.table, pushed.decoded.table.num_rows, pushed.decoded.stamps
    own = {
        ROW: pa.array(np.arange(count, dtype=np.int64)),
        c.CORRUPT: pa.array(pushed.decoded.problems, pa.string()),
        c.SOURCE_PARTITION: pa.repeat(pa.scalar(node.partition(pushed.shard)), count),
        c.SOURCE_TIME: pa.nulls(count, pa.timestamp("us", "UTC")) if stamps is None else stamps,
        c.EVENT_TIME: pa.repeat(pa.scalar(pushed.clock_us, pa.int64()), count),
    }
    return _with_columns(table, own)


def _united(branches: list[pa.Table]) -> pa.Table | None:
    """A stream may be read by several branches. One without WHERE keeps all its rows."""
    if len(branches) < 2:
        return branches[0] if branches else None
    whole = pa.concat_tables(branches, promote_options="default")
    if c.KEEP not in whole.column_names:
        return whole
    at = whole.schema.get_field_index(c.KEEP)
    return whole.set_column(at, c.KEEP, pc.fill_null(whole.column(at), True))


def _with_columns(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    """Columns of a table, some of them new or in another's place. Errors that rows have already come first."""
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        if at < 0:
            table = table.append_column(name, column)
        else:
            known = name in (c.ERROR, c.DETAIL)
            table = table.set_column(at, name, pc.coalesce(table.column(at), column) if known else column)
    return table
