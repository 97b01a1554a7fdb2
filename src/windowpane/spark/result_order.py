"""ORDER BY and LIMIT per window, in Spark SQL."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windowpane.plan.over_sql import order_text
from windowpane.plan.stages import ResultStage
from windowpane.spark.envelope import Envelope
from windowpane.sql.query import OrderKey
from windowpane.sql.result_steps import Sort


def in_order(frame: DataFrame, step: Sort, safe: Envelope, stage: ResultStage) -> DataFrame:
    """The first rows of each window in their order. Rows that are alike in it are ordered by their keys."""
    window, ties = stage.window_columns(frame.columns), stage.order_by_keys(frame.columns)
    frame = frame.selectExpr("*", *(f"{safe.value(key.expr)} AS _o{n}" for n, key in enumerate(step.order)))
    if step.limit is not None:
        keys = ", ".join([*(order_text(f"_o{n}", key) for n, key in enumerate(step.order)), *ties])
        rank = f"row_number() OVER (PARTITION BY {', '.join(window)} ORDER BY {keys}) AS _rank"
        frame = frame.selectExpr("*", rank).where(f"_rank <= {step.limit}")
    return frame.orderBy(*window, *_directions(step.order), *ties)


def _directions(order: tuple[OrderKey, ...]) -> list[Column]:
    found: list[Column] = []
    for number, key in enumerate(order):
        column = F.col(f"_o{number}")
        down, up = (column.desc_nulls_first, column.desc_nulls_last), (column.asc_nulls_first, column.asc_nulls_last)
        first, last = down if key.descending else up
        found.append(first() if key.nulls_first else last())
    return found
