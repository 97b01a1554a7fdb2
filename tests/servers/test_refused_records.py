"""Side records that a server never takes as they are: they are cut, and the queue goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.servers.world import Broker, Database
from windowpane.checkpoint.folder import FolderStore
from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.connectors.kafka import KafkaSink
from windowpane.connectors.postgres.sink import PostgresSink
from windowpane.connectors.sinks import MemorySink, Sink, SinkBatch
from windowpane.core import columns as c
from windowpane.core.side import side_batch
from windowpane.spark.channels import SideChannel
from windowpane.spark.side_output import side_batches
from windowpane.spark.unpacking import SideRecords

pytestmark = [pytest.mark.spark]

LARGE = {"kafka.max.request.size": "5000000"}
SIDE_RECORDS = SideRecords("plan", "t", ("late",), ("late",))


def deliver(spark: SparkSession, folder: Path, sink: Sink, events: list[str]) -> None:
    """Two batches: one of these events, and one behind it."""
    build = side_batches(spark, "t", SIDE_RECORDS, run_id=lambda: "run", is_unnamed=lambda _batch_id: False)
    channel = SideChannel(sink, SIDE_RECORDS, Outbox(FolderStore(folder)), build, max_pending=100, pauses=(0.2,))
    channel.begin(10)
    try:
        for batch_id, texts in enumerate((events, ['{"v":"behind"}'])):
            rows = pa.RecordBatch.from_pydict({c.EVENT_TIME: pa.array(range(len(texts)), pa.int64()), c.EVENT: texts})
            batch = side_batch("late", "a reason", rows, clock_us=0, watermark_us=None)
            channel.hand_over(PendingBatch(batch_id, [batch]))
        assert channel.settle(120, tries=3) == 0
    finally:
        channel.close()


class NotingSink(KafkaSink):
    """Keeps what its writes failed with."""

    def __init__(self, name: str, options: dict[str, str]) -> None:
        super().__init__(name, options)
        self.failures: list[str] = []

    def write(self, batch: SinkBatch) -> None:
        try:
            super().write(batch)
        except Exception as failed:
            self.failures.append(f"{failed} {failed.__cause__}")
            raise


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (({}, {}), r"RecordTooLargeException: The message is \d+ bytes .* max\.request\.size"),
        ((LARGE, {}), r"RecordTooLargeException: The request included a message larger than the max message size"),
        (
            (LARGE, {"max.message.bytes": "5000000", "segment.bytes": "1048576"}),
            "RecordBatchTooLargeException: The request included message batch larger than the configured segment size",
        ),
    ],
    ids=["client", "broker", "segment"],
)
def test_a_message_beyond_kafka_s_limit(
    kafka: Broker, spark: SparkSession, tmp_path: Path, limits: tuple[dict[str, str], ...], refusal: str
) -> None:
    """Each limit refuses the message in its own words, once; the shortened one is taken."""
    options, config = limits
    topic = kafka.topic("dlq", config=config)
    events = [json.dumps({"v": "x" * 2_000_000}), '{"v":"beside"}']
    sink = NotingSink("dlq", {"topic": topic, **kafka.address, **options})
    deliver(spark, tmp_path, sink, events)
    assert [bool(re.search(refusal, failure)) for failure in sink.failures] == [True], sink.failures
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


NOISE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n)"


@pytest.mark.postgres
def test_every_refusal_of_postgres_is_known(database: Database) -> None:
    """Each error that counts as a refused record, as the server raises it; other errors are tried again as they are."""
    statements = {
        psycopg.DataError: "INSERT INTO refused (short) VALUES ('too long')",
        psycopg.errors.ProgramLimitExceeded: f"INSERT INTO refused (indexed) VALUES ({NOISE})",
        psycopg.errors.StatementTooComplex: "INSERT INTO refused (nested) VALUES (repeat('[', 1000000)::jsonb)",
    }
    sink = PostgresSink("s", {"url": database.url, "table": "refused"})
    assert set(statements) == set(sink.record_errors)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE refused (short varchar(3), indexed text, nested jsonb)")
        connection.execute("CREATE INDEX ON refused (indexed)")
        for kind, statement in statements.items():
            with pytest.raises(kind) as refused:
                connection.execute(statement.encode())
            assert sink.refuses_record(refused.value)
        with pytest.raises(psycopg.Error) as other:
            connection.execute("INSERT INTO missing VALUES (1)")
        assert not sink.refuses_record(other.value)
    with pytest.raises(psycopg.OperationalError) as away:
        psycopg.connect("postgresql://127.0.0.1:1/x", connect_timeout=2)
    assert not sink.refuses_record(away.value)


def test_more_than_the_driver_may_collect(spark: SparkSession) -> None:
    """Spark's own limit, as a sink meets it that collects its records."""
    config = spark.sparkContext._jsc.sc().conf()
    config.set("spark.driver.maxResultSize", "1m")
    try:
        with pytest.raises(Exception, match="maxResultSize") as failed:
            spark.range(4).selectExpr("repeat(uuid(), 50000) AS record").toArrow()
    finally:
        config.remove("spark.driver.maxResultSize")
    assert MemorySink("s").refuses_record(failed.value)
