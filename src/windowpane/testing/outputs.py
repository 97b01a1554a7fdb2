"""The result side without Spark: the steps over a window's results, computed by DuckDB, and the final projection."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.rows import int64s
from windowpane.errors import SqlError
from windowpane.evaluation.result_rows import with_pseudo_columns
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.over_sql import OverSql, order_text
from windowpane.plan.stages import ResultStage
from windowpane.sql.result_steps import Over, Segment, Sort
from windowpane.sql.types import to_arrow
from windowpane.testing.expressions import ROW, Expressions
from windowpane.time import from_datetime, to_datetime

_HELD, _VALUE = "_held", "_value_"
FIRST_US = from_datetime(dt.datetime.min.replace(tzinfo=dt.UTC))
LAST_US = from_datetime(dt.datetime.max.replace(tzinfo=dt.UTC))
"""What a datetime can be: the years 1 to 9999."""


class OutputEvaluator:
    """Evaluates the result side. Values of a segment's expressions are the columns `_value_0`, `_value_1` and so on."""

    def __init__(self, stage: ResultStage, plan_id: str, expressions: Expressions) -> None:
        self._stage, self._plan_id, self._expressions = stage, plan_id, expressions

    def results(self, emissions: pa.RecordBatch, watermark_us: int | None) -> tuple[pa.Table, list[pa.RecordBatch]]:
        """Result rows in order, and the rows that could not be evaluated as error rows with the watermark."""
        table, errors = self._with_pseudo_columns(emissions), []
        for segment in self._stage.segments:
            table, bad = self._evaluated(table, segment, watermark_us)
            errors += bad
            if segment.operation is not None:
                table = self._applied(table, segment)
        names = [output.name for output in self._stage.outputs]
        return pa.table([table.column(f"{_VALUE}{at}") for at in range(len(names))], names=names), errors

    def _with_pseudo_columns(self, emissions: pa.RecordBatch) -> pa.Table:
        columns = with_pseudo_columns(emissions, self._plan_id) | {c.EPOCH: emissions.column(c.EPOCH)}
        return pa.table({**columns, ROW: pa.array(range(emissions.num_rows), pa.int64())})

    def _evaluated(
        self, table: pa.Table, segment: Segment, watermark_us: int | None
    ) -> tuple[pa.Table, list[pa.RecordBatch]]:
        """The rows that the condition keeps, with the values of the expressions; and error rows."""
        condition = segment.condition
        columns = [InputColumn(f"{_VALUE}{at}", expr, "key") for at, expr in enumerate(segment.exprs)]
        columns += [InputColumn(_HELD, condition, "where")] if condition else []
        known = table.drop_columns([name for name in table.column_names if name.startswith(_VALUE)])
        projection = self._expressions.projection(columns, _HELD if condition else None, known.schema)
        found = replace(projection, carried=()).rows(known, 0)
        for at in range(len(segment.exprs)):
            known = known.append_column(f"{_VALUE}{at}", found.column(f"{_VALUE}{at}"))
        kept = found.column(c.KEEP) if condition else pa.repeat(pa.scalar(value=True), known.num_rows)
        if c.ERROR not in found.schema.names:
            return known.filter(kept), []
        reasons = found.column(c.ERROR)
        return known.filter(pc.and_(kept, reasons.is_null())), self._errors(known, reasons, watermark_us)

    def _applied(self, table: pa.Table, segment: Segment) -> pa.Table:
        names = {expr.text: f"{_VALUE}{at}" for at, expr in enumerate(segment.exprs)}
        window, ties = self._stage.window_columns(table.column_names), self._stage.order_by_keys(table.column_names)
        known = table.select([*dict.fromkeys(names.values()), *window, *ties, ROW])
        decisive = [*(f"{name} ASC NULLS FIRST" for name in ties), ROW]
        match segment.operation:
            case Sort() as sort:
                order = [order_text(names[key.expr.text], key) for key in sort.order]
                rows = self._expressions.query(_sorted(sort, window, ", ".join([*order, *decisive])), known)
                return table.take(pc.index_in(rows.column(ROW), table.column(ROW)))
            case Over() as over:
                sql = OverSql("duckdb", window, decisive, lambda expr: names[expr.text])
                return self._with_functions(table, known, over, sql)
        return table

    def _with_functions(self, table: pa.Table, known: pa.Table, step: Over, sql: OverSql) -> pa.Table:
        for call in step.calls:
            if call.function == "avg" and call.type != "DOUBLE":
                text = f"the harness does not compute {call.function}({call.args[0].text}) OVER: it is a {call.type}"
                raise SqlError("UNSUPPORTED_IN_HARNESS", text, "run the golden file on Spark: test --spark")
        numbered = f"SELECT *, {', '.join(sql.positions(step.calls) or ['0 AS _none'])} FROM input"
        found = self._expressions.query(
            f"SELECT {', '.join(sql.columns(step.calls))} FROM ({numbered}) ORDER BY {ROW}", known
        )
        for call in step.calls:
            column, kind = found.column(call.name), to_arrow(call.type)
            table = table.append_column(call.name, column if kind is None else column.cast(kind))
        return table

    def _errors(self, rows: pa.Table, reasons: pa.Array, watermark_us: int | None) -> list[pa.RecordBatch]:
        mask = reasons.is_valid()
        if not pc.any(mask).as_py():
            return []
        bad = rows.filter(mask).combine_chunks().to_batches()[0]
        bounds = {}
        if c.WINDOW_START in bad.schema.names:
            bounds = {"window_start": int64s(bad, c.WINDOW_START), "window_end": int64s(bad, c.WINDOW_END)}
        found = side.side_batch(
            "error", reasons.filter(mask), bad, clock_us=0, watermark_us=watermark_us, keys=self._stage.keys, **bounds
        )
        return [found]


def _sorted(step: Sort, window: list[str], order: str) -> str:
    """SQL of the numbers of the rows in order."""
    sql = f"SELECT {ROW} FROM input"
    if step.limit is not None:
        sql += f" QUALIFY row_number() OVER (PARTITION BY {', '.join(window)} ORDER BY {order}) <= {step.limit}"
    return f"{sql} ORDER BY {', '.join([*window, order])}"


def as_python(table: pa.Table) -> list[dict[str, object]]:
    """Rows as Spark's `Row.asDict` gives them, instants as aware datetimes in UTC."""
    return [{name: _in_utc(value) for name, value in row.items()} for row in _within_datetime(table).to_pylist()]


def as_datetime(us: int) -> dt.datetime:
    """An instant; the first or the last that a datetime can be where its year does not fit."""
    return to_datetime(min(max(us, FIRST_US), LAST_US))


def _within_datetime(table: pa.Table) -> pa.Table:
    """One row far out in time must not keep the others from being shown."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "us":
            counts = pc.max_element_wise(table.column(index).cast(pa.int64()), FIRST_US, skip_nulls=False)
            counts = pc.min_element_wise(counts, LAST_US, skip_nulls=False)
            table = table.set_column(index, field, counts.cast(field.type))
    return table


def _in_utc(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    return value
