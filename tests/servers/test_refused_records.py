"""Side records that a server never takes as they are: they are cut, and the queue goes on."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.servers.world import Broker, Database
from windowpane.checkpoint.outbox import Outbox, Waiting
from windowpane.connectors.kafka import KafkaSink
from windowpane.connectors.postgres.sink import PostgresSink
from windowpane.connectors.sinks import Sink
from windowpane.core import columns as c
from windowpane.core.side import side_batch
from windowpane.spark.channels import SideChannel
from windowpane.spark.side_output import side_batches
from windowpane.spark.unpacking import SideRecords

pytestmark = [pytest.mark.spark]

DOCUMENTS = SideRecords("plan", "t", ("late",), ("late",))


def deliver(spark: SparkSession, folder: Path, sink: Sink, events: list[str]) -> None:
    """Two batches: one of these events, and one behind it."""
    build = side_batches(spark, "t", lambda: "run", DOCUMENTS, -1)
    channel = SideChannel(sink, DOCUMENTS, Outbox(folder), build, max_waiting=100, pauses=(0.2,))
    channel.begin(10)
    try:
        for batch_id, texts in enumerate((events, ['{"v":"behind"}'])):
            rows = pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array(range(len(texts)), pa.int64()), c.EVENT: texts})
            batch = side_batch("late", "a reason", rows, clock_us=0, watermark_us=None)
            channel.hand_over(Waiting(batch_id, [batch]))
        assert channel.settle(120, tries=3) == 0
    finally:
        channel.close()


@pytest.mark.kafka
@pytest.mark.parametrize("options", [{}, {"kafka.max.request.size": "5000000"}], ids=["client", "broker"])
def test_a_message_beyond_kafka_s_limit(
    kafka: Broker, spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    topic = kafka.topic("dlq")
    events = [json.dumps({"v": "x" * 2_000_000}), '{"v":"beside"}']
    deliver(spark, tmp_path, KafkaSink("dlq", {"topic": topic, **kafka.address, **options}), events)
    found = [message.value for message in kafka.read(topic)]
    cut = [record for record in found if "truncated" in record]
    assert [record["truncated"] for record in cut] == [["original_event"]]
    assert cut[0]["original_event"]["_truncated"].startswith('{"v": "xxx')
    others = [record["original_event"]["v"] for record in found if "truncated" not in record]
    assert set(others) == {"beside", "behind"}


@pytest.mark.postgres
def test_a_value_that_a_column_of_postgres_does_not_hold(
    database: Database, spark: SparkSession, tmp_path: Path
) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE dlq (record varchar(2000), _batch bigint)")
    events = [json.dumps({"v": "x" * 10_000}), '{"v":"nul \\u0000 here"}']
    deliver(spark, tmp_path, PostgresSink("dlq", {"url": database.url, "table": "dlq"}), events)
    found = [json.loads(row["record"]) for row in database.rows("SELECT record FROM dlq ORDER BY _batch")]
    assert len(found) == 3
    assert [record["truncated"] for record in found if "truncated" in record] == [["original_event"]]
    whole = {record["original_event"]["v"] for record in found if "truncated" not in record}
    assert whole == {"nul \ufffd here", "behind"}
