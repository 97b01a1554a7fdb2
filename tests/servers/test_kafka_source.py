"""Kafka streams: values decoded or kept as error rows with their text, partitions of the watermark."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.world import Broker, Job, projected, routes_to

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = "k STRING, v BIGINT, ms BIGINT"
TIMED = {"column": "ms", "type": "unixtimestamp_ms", "strict": True}
EVENT_TIME = {"eventtime": {"enabled": True}}
BAD: list[str | bytes | None] = [
    '{"k": "a", "v": 1',
    '{"k": "a", "v": "many", "ms": 1000}',
    '{"k": "a", "v": 1.5, "ms": 1000}',
    '{"k": "a", "v": 99999999999999999999, "ms": 1000}',
    "[]",
    "7",
    "",
    "   ",
    None,
    b'{"k": "\xff\xfe", "v": 1, "ms": 1000}',
    b"\xff\x00",
]

WITHOUT_CONNECTOR = """[streams.t]
format = "kafka"
schema = "k STRING"
options = { kafka.bootstrap.servers = "localhost:9092", subscribe = "t" }
[transforms.q]
sql = "SELECT k, count(*) AS n FROM t GROUP BY tumblingwindow('ss', 10), k"
sink = "out"
[sinks.out]
format = "console"
[spark]
master = "local[1]"
"""


def row(second: float, k: str = "a", v: int = 1) -> dict[str, object]:
    return {"k": k, "v": v, "ms": round(second * 1000)}


def test_what_cannot_be_decoded_is_an_error_row_with_its_text(
    kafka: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.topic("bad", 2)
    kafka.send(topic, [row(1), *BAD, row(2)], partition=0)
    kafka.send(topic, [row(3, v=5), {"k": None, "v": None, "ms": 4000}, {"ms": 5000, "more": 1}], partition=1)
    query = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY tumblingwindow('ss', 10), k"
    job = Job(
        tmp_path,
        {
            "streams": {"t": kafka.stream(topic, SCHEMA, eventtime=TIMED)},
            "options": EVENT_TIME,
            "transforms": {"q": {"sql": query, "sink": "results", "side_output": routes_to("dlq", "error")}},
        },
        "results", "dlq",
    )  # fmt: skip
    last = job.run(spark, drain=True)[-1]
    assert projected(job.rows(), "n", "s") == [(2, None), (3, 7)]
    records = job.records()
    assert {record["reason"] for record in records} == {"decode_error"}
    texts = {record["original_event"]["offset"]: record["original_event"]["_corrupt_record"] for record in records}
    wanted = ["" if text is None else text if isinstance(text, str) else text.decode(errors="replace") for text in BAD]
    assert [texts[offset] for offset in sorted(texts)] == wanted
    assert {(record["original_event"]["topic"], record["shard"]) for record in records} == {(topic, 0)}
    assert (last.totals["in_"], last.totals["error"], last.totals["aggregated"]) == (5 + len(BAD), len(BAD), 5)


def test_a_lagging_partition_holds_windows_open_and_an_idle_one_lets_go(
    kafka: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.topic("shards", 3)
    query = "SELECT window_start, count(*) AS n FROM t GROUP BY tumblingwindow('ss', 10)"
    job = Job(
        tmp_path,
        {
            "streams": {"t": kafka.stream(topic, SCHEMA, eventtime=TIMED)},
            "options": {**EVENT_TIME, "idle_timeout": "4s"},
            "transforms": {"q": {"sql": query, "sink": "results"}},
        },
        "results",
    )
    kafka.send(topic, [row(5), row(25)], partition=0)
    kafka.send(topic, [row(4), row(6)], partition=1)
    kafka.send(topic, [row(3), row(31)], partition=2)
    held = job.run(spark)[-1]
    assert held.maxima == {"t/0": 25_000_000, "t/1": 6_000_000, "t/2": 31_000_000}
    assert (held.held_by, held.watermark_us, job.rows()) == ("t/1", 6_000_000, [])

    kafka.send(topic, [row(12)], partition=1)
    kafka.send(topic, [row(35)], partition=0)
    moved = job.run(spark)[-1]
    assert (moved.held_by, moved.watermark_us) == ("t/1", 12_000_000)
    assert projected(job.rows(), "n") == [(4,)], "[0, 10) of all three partitions, when the last of them has passed it"

    time.sleep(4)
    kafka.send(topic, [row(36)], partition=0)
    kafka.send(topic, [row(37)], partition=2)
    free = job.run(spark)[-1]
    assert (free.held_by, free.watermark_us) == ("t/0", 36_000_000)
    assert projected(job.rows(), "n") == [(1,), (1,), (4,)]
    assert free.totals["late"] == 0


def test_metadata_can_be_named_and_the_brokers_time_is_a_fallback(
    kafka: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """Of two topics in one stream each partition is a shard; `*` leaves the metadata out."""
    first, second = kafka.topic("meta", 1), kafka.topic("meta", 1)
    at = dt.datetime(2024, 5, 1, 12, 0, 3, tzinfo=dt.UTC)
    kafka.send(first, [{"k": "a", "v": 1, "ms": None}], at_ms=round(at.timestamp() * 1000))
    kafka.send(second, [row(at.timestamp() + 20), row(at.timestamp() + 1)])
    query = (
        "SELECT topic, min(offset) AS low, max(timestamp) AS stamp, count(*) AS n FROM t "
        "GROUP BY tumblingwindow('ss', 10), topic, partition, key"
    )
    timed = {"column": "ms", "type": "unixtimestamp_ms"}
    streams = {"t": kafka.stream(f"{first},{second}", SCHEMA, eventtime=timed)}
    settings = {"streams": streams, "options": EVENT_TIME, "transforms": {"q": {"sql": query, "sink": "results"}}}
    job = Job(tmp_path, settings, "results")
    last = job.run(spark)[-1]
    start = round(at.timestamp() * 1_000_000)
    assert last.maxima == {f"t/{first}-0": start, f"t/{second}-0": start + 20_000_000}
    job.run(spark, drain=True)
    assert projected(job.rows(), "topic", "low", "n") == sorted([(first, 0, 1), (second, 0, 1), (second, 1, 1)])
    assert {found["stamp"].astimezone(dt.UTC) for found in job.rows() if found["topic"] == first} == {at}


def test_without_a_schema_a_stream_has_sparks_columns(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    topic = kafka.topic("raw", 1)
    kafka.send(topic, ["x", "y", "x"], at_ms=5000)
    query = (
        "SELECT CAST(value AS STRING) AS text, count(*) AS n FROM t "
        "GROUP BY tumblingwindow('ss', 10), CAST(value AS STRING)"
    )
    streams = {"t": kafka.stream(topic, None, eventtime={"column": "timestamp", "type": "timestamp"})}
    settings = {"streams": streams, "options": EVENT_TIME, "transforms": {"q": {"sql": query, "sink": "results"}}}
    job = Job(tmp_path, settings, "results")
    job.run(spark, drain=True)
    assert projected(job.rows(), "text", "n") == [("x", 2), ("y", 1)]


def test_two_topics_in_a_union_with_a_static_join(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """Each stream has a watermark of its own, and the slower one holds."""
    bids, asks = kafka.topic("bids", 2), kafka.topic("asks", 1)
    names = tmp_path / "names"
    names.mkdir()
    (names / "all.json").write_text('{"k": "a", "name": "apples"}\n{"k": "b", "name": "beans"}\n', encoding="utf-8")
    query = (
        "SELECT name, count(*) AS n, sum(v) AS s FROM (SELECT k, v FROM bids UNION ALL SELECT item AS k, -price AS v "
        "FROM asks) AS u JOIN names USING (k) GROUP BY tumblingwindow('ss', 10), name"
    )
    timed = {"column": "at", "type": "iso8601", "strict": True}
    job = Job(
        tmp_path,
        {
            "streams": {
                "bids": kafka.stream(bids, SCHEMA, eventtime=TIMED),
                "asks": kafka.stream(asks, "item STRING, price BIGINT, at STRING", eventtime=timed),
            },
            "tables": {"names": {"format": "json", "path": "names", "schema": "k STRING, name STRING"}},
            "options": EVENT_TIME,
            "transforms": {"q": {"sql": query, "sink": "results"}},
        },
        "results",
    )
    kafka.send(bids, [row(1, "a", 10), row(2, "c", 1), row(40, "b", 5)], partition=0)
    kafka.send(bids, [row(3, "b", 7), row(41, "a", 1)], partition=1)
    kafka.send(asks, [{"item": "a", "price": 4, "at": "1970-01-01T00:00:04Z"}])
    held = job.run(spark)[-1]
    assert (held.watermark_us, held.held_by, job.rows()) == (4_000_000, "asks/0", [])
    kafka.send(asks, [{"item": "b", "price": 1, "at": "1970-01-01T00:00:30Z"}])
    last = job.run(spark)[-1]
    assert (last.watermark_us, last.totals["unmatched"]) == (30_000_000, 1)
    assert projected(job.rows(), "name", "n", "s") == [("apples", 2, 6), ("beans", 1, 7)]


def test_without_the_connector_the_coordinates_are_said(tmp_path: Path) -> None:
    """In a process of its own, whose Spark has no such jar."""
    (tmp_path / "pipeline.toml").write_text(WITHOUT_CONNECTOR, encoding="utf-8")
    command = [sys.executable, "-c", "from windowpane.cli import main; main()", "run"]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "[KAFKA_CONNECTOR_MISSING] stream `t` needs Spark's Kafka connector" in done.stderr
    assert "pipeline.toml:2 key `streams.t.format`" in done.stderr
    assert 'packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:' in done.stderr
