"""Results and side records as messages of Kafka: value, key, and headers that identify the emission."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windowpane.connectors.sinks import EMIT_EPOCH, GROUP_KEY, IDENTITY, IS_FINAL, WHOLE_JSON, WINDOW_ID, SinkBatch

GROUP_KEY_BEGINS = '","group_key":'
"""In the key of a message, what is between the window and the group."""


def messages(batch: SinkBatch) -> DataFrame:
    """The rows of a batch with the columns `value`, `headers` and, if they have an identity, `key`."""
    return batch.frame.select(*(_side_record(batch) if batch.side_records else _result(batch)))


def result_columns(frame: DataFrame) -> list[Column]:
    """The columns of the query, without the identity."""
    return [F.col(f"`{name}`") for name in frame.columns if name not in IDENTITY]


def _side_record(batch: SinkBatch) -> list[Column]:
    return [F.col("value"), _headers(batch, {}).alias("headers")]


def _result(batch: SinkBatch) -> list[Column]:
    value = F.to_json(F.struct(*result_columns(batch.frame)), WHOLE_JSON)
    if not batch.identified:
        return [value.alias("value"), _headers(batch, {}).alias("headers")]
    window = [F.lit('{"window_id":"'), F.col(WINDOW_ID)]
    place = F.concat(*window, F.lit(GROUP_KEY_BEGINS), F.col(GROUP_KEY), F.lit("}"))
    emission = {"window_id": F.col(WINDOW_ID), "emit_epoch": F.col(EMIT_EPOCH), "is_final": F.col(IS_FINAL)}
    return [place.alias("key"), value.alias("value"), _headers(batch, emission).alias("headers")]


def _headers(batch: SinkBatch, emission: dict[str, Column]) -> Column:
    given = {
        "transform": F.lit(batch.transform),
        "run": F.lit(batch.run),
        "batch_id": F.lit(batch.batch_id),
        **emission,
    }
    if batch.side_records:
        given["side"] = F.lit("true")
    pairs = [
        F.struct(F.lit(name).alias("key"), F.encode(value.cast("string"), "UTF-8").alias("value"))
        for name, value in given.items()
    ]
    return F.array(*pairs)
