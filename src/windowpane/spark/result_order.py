"""ORDER BY and LIMIT per window, in Spark SQL."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windowpane.plan.stages import ResultStage
from windowpane.spark.envelope import Envelope
from windowpane.sql.query import OrderKey


def in_order(frame: DataFrame, stage: ResultStage, safe: Envelope, window: list[str]) -> DataFrame:
    """The first rows of each window in their order. `window`: the columns that identify a window."""
    order = stage.order
    if not order:
        return frame
    frame = frame.selectExpr("*", *(f"{safe.value(key.expr)} AS _o{n}" for n, key in enumerate(order)))
    if stage.limit is not None:
        keys = ", ".join(_order_key(n, key) for n, key in enumerate(order))
        rank = f"row_number() OVER (PARTITION BY {', '.join(window)} ORDER BY {keys}) AS _rank"
        frame = frame.selectExpr("*", rank).where(f"_rank <= {stage.limit}")
    return frame.orderBy(*window, *_directions(order))


def _order_key(number: int, key: OrderKey) -> str:
    return f"_o{number} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _directions(order: tuple[OrderKey, ...]) -> list[Column]:
    found: list[Column] = []
    for number, key in enumerate(order):
        column = F.col(f"_o{number}")
        down, up = (column.desc_nulls_first, column.desc_nulls_last), (column.asc_nulls_first, column.asc_nulls_last)
        first, last = down if key.descending else up
        found.append(first() if key.nulls_first else last())
    return found
