"""Brings the rows of a batch to the driver, for sinks that write from there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROWS_AT_ONCE = 200_000
"""Larger batches are collected one partition after the other."""


def tables(frame: DataFrame, rows: int) -> Iterator[pa.Table]:
    """The rows on the driver, in parts that fit into its memory."""
    if rows <= ROWS_AT_ONCE:
        yield frame.toArrow()
        return
    frame = frame.persist()
    try:
        for number in range(frame.rdd.getNumPartitions()):
            yield frame.where(F.spark_partition_id() == number).toArrow()
    finally:
        frame.unpersist()
