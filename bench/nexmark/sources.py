"""What queries read, as each engine on Spark declares it: files or a topic, so many rows in a micro-batch.

A run is a task of `spark_job.py`: `folders`, `format`, `file_rows`, or `topic`; its `rows` and `batch_rows`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.nexmark.generator import COLUMNS, IN_TOPIC, Stream
from bench.nexmark.settings import file_stream
from bench.nexmark.topics import CONSUMER

LAG_S = 2
"""How far the watermark is behind, in every engine: as far as rows are out of order."""


def windowpane_stream(run: dict[str, Any], stream: Stream) -> dict[str, Any]:
    """With the keys of pipeline.toml. In JSON the time is a text, which is what its own documentation advises."""
    if run["topic"] is not None and run["topic"]["value_format"] != "json":
        in_ms = run["topic"]["value_format"] == "protobuf"
        return {
            "format": "kafka", "value_format": run["topic"]["value_format"],
            "schema": IN_TOPIC.replace("ts TIMESTAMP", "ts BIGINT") if in_ms else IN_TOPIC,
            "eventtime": {"column": "ts", "type": "unixtimestamp_ms" if in_ms else "timestamp"},
            "options": _kafka_options(run) | {"schema_file": run["topic"]["schema_file"]},
        }  # fmt: skip
    if run["topic"] is not None:
        return {
            "format": "kafka", "schema": _texts(IN_TOPIC), "eventtime": {"column": "ts", "type": "iso8601"},
            "options": _kafka_options(run),
        }  # fmt: skip
    if run["format"] == "json":
        declared = file_stream(run["folders"][stream], _texts(COLUMNS[stream]), files=_files(run), form="json")
        return declared | {"eventtime": {"column": "ts", "type": "iso8601"}}
    return file_stream(run["folders"][stream], COLUMNS[stream], files=_files(run), form=run["format"])


def _texts(columns: str) -> str:
    return columns.replace("ts TIMESTAMP", "ts STRING")


def spark_frame(spark: SparkSession, run: dict[str, Any], stream: Stream, *, watermarked: bool) -> DataFrame:
    """The stream in Spark's own API."""
    rows = _topic(spark, run) if run["topic"] is not None else _folder(spark, run, stream)
    return rows.withWatermark("ts", f"{LAG_S} seconds") if watermarked else rows


def _topic(spark: SparkSession, run: dict[str, Any]) -> DataFrame:
    messages = spark.readStream.format("kafka").options(**_kafka_options(run)).load()
    return messages.select(F.from_json(F.col("value").cast("string"), IN_TOPIC).alias("row")).select("row.*")


def _folder(spark: SparkSession, run: dict[str, Any], stream: Stream) -> DataFrame:
    reader = spark.readStream.schema(COLUMNS[stream]).option("maxFilesPerTrigger", _files(run)).format(run["format"])
    return reader.load(run["folders"][stream])


def _files(run: dict[str, Any]) -> int:
    return max(1, int(run["batch_rows"]) // int(run["file_rows"]))


def _kafka_options(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": run["topic"]["servers"],
        "subscribe": run["topic"]["name"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": run["batch_rows"],
        **{f"kafka.{name}": value for name, value in CONSUMER.items()},
    }
