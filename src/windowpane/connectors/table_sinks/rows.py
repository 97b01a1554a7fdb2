"""The rows of a micro-batch as tables of Delta Lake and Iceberg take them: with the name of their batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from windowpane.connectors.read_back import ORDER, ReadBack, Written
from windowpane.connectors.sinks import EMIT_EPOCH, GROUP_KEY, WINDOW_ID, SinkBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH = "_batch"
"""The column with `SinkBatch.identity`: which batch has written a row."""
RECORD = "record"
"""The column of side records, as JSON."""
KEY = (WINDOW_ID, GROUP_KEY)
_EPOCH_DIGITS = 12


def small_rows(batch: SinkBatch) -> pa.Table:
    """The rows in this process."""
    rows = batch.arrow()
    if batch.side_records:
        rows = rows.rename_columns([RECORD])
    return rows.append_column(BATCH, pa.repeat(pa.scalar(batch.identity), rows.num_rows))


def large_rows(batch: SinkBatch) -> DataFrame:
    """The rows where Spark has them."""
    rows = batch.frame.withColumnRenamed("value", RECORD) if batch.side_records else batch.frame
    return rows.withColumn(BATCH, F.lit(batch.identity))


def latest(rows: pa.Table) -> pa.Table:
    """Of several emissions of a window and group, the last one."""
    numbered = rows.append_column(ORDER, pa.array(range(rows.num_rows), pa.int64()))
    by_epoch = numbered.select([*KEY, EMIT_EPOCH, ORDER]).sort_by(EMIT_EPOCH)
    kept = by_epoch.group_by(list(KEY), use_threads=False).aggregate([(ORDER, "last")])
    return rows if kept.num_rows == rows.num_rows else rows.take(kept[f"{ORDER}_last"].sort())


def latest_large(rows: DataFrame) -> DataFrame:
    """The same where Spark has the rows."""
    keys = ", ".join(KEY)
    number = F.expr(f"row_number() OVER (PARTITION BY {keys} ORDER BY {EMIT_EPOCH} DESC)")
    return rows.withColumn(ORDER, number).where(f"{ORDER} = 1").drop(ORDER)


def is_new(rows: pa.Table) -> bool:
    """Whether no window and group of these rows was emitted before by the same run."""
    return rows.num_rows == 0 or bool(pc.max(rows[EMIT_EPOCH]).as_py() == 1)


def batch_prefix(written: Written, *, side: bool = False) -> str:
    """How the names of a run's batches begin."""
    return f"{written.transform}{'.side' if side else ''}-{written.run}-"


def compared(expected: pa.Table, found: pa.Table) -> ReadBack:
    """What is read back: of several emissions, the one of the last batch and epoch comes last."""
    order = found[BATCH].cast(pa.string())
    if EMIT_EPOCH in found.column_names:
        epoch = pc.utf8_lpad(found[EMIT_EPOCH].cast(pa.string()), _EPOCH_DIGITS, "0")
        order = pc.binary_join_element_wise(order, epoch, "-")
    there = [name for name in expected.column_names if name in found.column_names]
    missing = {name: pa.nulls(found.num_rows, expected.schema.field(name).type) for name in expected.column_names}
    columns = {name: found[name] if name in there else missing[name] for name in expected.column_names}
    return ReadBack(expected, pa.table(columns | {ORDER: order}))
