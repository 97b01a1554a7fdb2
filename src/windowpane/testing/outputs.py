"""The way out of the operators without Spark: HAVING, order and limit per window, the final projection."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.rows import int64s
from windowpane.evaluation.duckdb_tables import quoted
from windowpane.evaluation.result_rows import with_pseudo_columns
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.stages import ResultStage
from windowpane.sql.query import OrderKey
from windowpane.testing.expressions import ROW, Expressions
from windowpane.time import from_datetime, to_datetime

_HELD, _OUT, _KEY = "_held", "_out", "_key"
_WINDOW = ("window_start", "window_end", "trigger_time")
FIRST_US = from_datetime(dt.datetime.min.replace(tzinfo=dt.UTC))
LAST_US = from_datetime(dt.datetime.max.replace(tzinfo=dt.UTC))
"""What a datetime can be: the years 1 to 9999."""


class OutputEvaluator:
    """Evaluates everything above the window."""

    def __init__(self, stage: ResultStage, plan_id: str, expressions: Expressions) -> None:
        self._plan_id, self._keys, self._expressions = plan_id, stage.keys, expressions
        self._having, self._order, self._limit, self._outputs = stage.having, stage.order, stage.limit, stage.outputs
        self._columns = [
            *([InputColumn(_HELD, stage.having, "where")] if stage.having else []),
            *(InputColumn(f"{_OUT}{at}", output.expr, "key") for at, output in enumerate(stage.outputs)),
            *(InputColumn(f"{_KEY}{at}", key.expr, "key") for at, key in enumerate(stage.order)),
        ]

    def results(self, emissions: pa.RecordBatch) -> tuple[pa.Table, pa.RecordBatch | None]:
        """Result rows in order, and the emissions that could not be evaluated as error rows (None when all could)."""
        table = self._with_pseudo_columns(emissions)
        found, bad = self._evaluated(table)
        good = found if bad is None else found.filter(pc.is_null(bad))
        return self._project(good), None if bad is None else self._errors(emissions, bad)

    def _with_pseudo_columns(self, emissions: pa.RecordBatch) -> pa.Table:
        columns = with_pseudo_columns(emissions, self._plan_id)
        return pa.table({**columns, ROW: pa.array(range(emissions.num_rows), pa.int64())})

    def _evaluated(self, table: pa.Table) -> tuple[pa.Table, pa.Array | None]:
        """HAVING, the outputs and the keys of ORDER BY; and for each emission why one of them fails, if any does."""
        projection = self._expressions.projection(self._columns, _HELD if self._having else None, table.schema)
        found = pa.Table.from_batches([replace(projection, carried=(*_WINDOW, ROW)).rows(table, 0)])
        bad = found.column(c.ERROR).combine_chunks() if c.ERROR in found.column_names else None
        return found, bad if bad is not None and bad.null_count < len(bad) else None

    def _project(self, table: pa.Table) -> pa.Table:
        outputs = ", ".join(f"{_OUT}{at} AS {quoted(output.name)}" for at, output in enumerate(self._outputs))
        sql = f"SELECT {outputs} FROM input"
        if self._having:
            sql += f" WHERE {_HELD}"
        window = ", ".join(name for name in _WINDOW if name in table.column_names)
        order = ", ".join([*(_order_key(key, f"{_KEY}{at}") for at, key in enumerate(self._order)), ROW])
        if self._limit is not None:
            within = f"PARTITION BY {window} ORDER BY {order}"
            sql += f" QUALIFY row_number() OVER ({within}) <= {self._limit}"
        if self._order:
            sql += f" ORDER BY {window}, {order}" if window else f" ORDER BY {order}"
        return self._expressions.query(sql if self._order else f"{sql} ORDER BY {ROW}", table)

    def _errors(self, emissions: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
        mask = reasons.is_valid()
        bad = emissions.filter(mask)
        bounds = {}
        if c.WINDOW_START in bad.schema.names:
            bounds = {"window_start": int64s(bad, c.WINDOW_START), "window_end": int64s(bad, c.WINDOW_END)}
        return side.side_batch(
            "error", reasons.filter(mask), bad, clock_us=0, watermark_us=None, keys=self._keys, **bounds
        )


def _order_key(key: OrderKey, text: str) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


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
