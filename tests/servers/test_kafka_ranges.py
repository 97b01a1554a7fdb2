"""Ranges of offsets fetched from a real broker: gaps, lost messages, and what Spark's own reader gives."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from scripts.servers import Kafka, running
from tests.servers.conftest import available
from tests.servers.world import Broker, Job, projected
from windowpane.config import Stream
from windowpane.connectors.kafka_topics import topic_identities
from windowpane.errors import SourceError
from windowpane.remote import messages_by_library
from windowpane.remote.kafka import client_settings
from windowpane.remote.kafka_consumer import ConsumerClient
from windowpane.remote.librdkafka import Client
from windowpane.remote.message_batches import Wanted
from windowpane.scan import message_ranges
from windowpane.scan.message_ranges import AnyClient, Fetching, Range, fetched

pytestmark = pytest.mark.kafka

_transactions = itertools.count()
Record = tuple[int, bytes | None, bytes | None, int]


@pytest.fixture(params=["compiled", "ctypes", "consume"])
def client(request: pytest.FixtureRequest, kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "ctypes":
        monkeypatch.setattr(messages_by_library, "compiled", lambda: None)
    made = (ConsumerClient if request.param == "consume" else Client)(settings(kafka))
    yield made
    made.close()


def settings(kafka: Broker, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": kafka.server.address, "log_level": "2", **more}


def records(client: AnyClient, source: Range, **how: Any) -> list[Record]:
    """Offset, key, value and time of the messages of a range."""
    found: list[Record] = []
    for part in fetched(client, source, Wanted(key=True, time=True), Fetching((), **how)):
        assert part.keys is not None
        assert part.times_ms is not None
        columns = part.offsets.tolist(), part.keys.to_pylist(), part.values.to_pylist(), part.times_ms.tolist()
        found += zip(*columns, strict=True)
    return found


def offsets(client: AnyClient, source: Range, **how: Any) -> list[int]:
    return [record[0] for record in records(client, source, **how)]


def in_transaction(kafka: Broker, topic: str, values: list[str], *, commits: bool) -> None:
    producer = Producer(settings(kafka) | {"transactional.id": f"t{next(_transactions)}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(30)
    producer.commit_transaction(30) if commits else producer.abort_transaction(30)


def admin(kafka: Broker) -> AdminClient:
    return AdminClient({**settings(kafka)})


def test_messages_as_they_are(kafka: Broker, client: AnyClient) -> None:
    topic = kafka.topic("ranges")
    values = [b"", b"short", b"x" * 12, b"y" * 13, b"z" * 70_000, None] * 20
    for key in (b"k", None, b"\xff"):
        kafka.send(topic, values, at_ms=1_700_000_000_123, key=key)
    found = records(client, Range(topic, 0, 5, 300))
    assert [record[0] for record in found] == list(range(5, 300))
    assert [record[2] for record in found] == (values * 3)[5:300]
    assert [record[1] for record in found] == ([b"k"] * 120 + [None] * 120 + [b"\xff"] * 120)[5:300]
    assert {record[3] for record in found} == {1_700_000_000_123}
    assert records(client, Range(topic, 0, 7, 8)) == [(7, b"k", b"short", 1_700_000_000_123)]
    assert offsets(client, Range(topic, 0, 8, 8)) == []


def test_transactions_leave_gaps(kafka: Broker) -> None:
    """A range that ends with the mark of a transaction ends by its offset, whatever comes or does not come behind."""
    topic = kafka.topic("gaps")
    for number in range(3):
        in_transaction(kafka, topic, [f"{number}{part}" for part in "abc"], commits=number != 1)
    for kind in (Client, ConsumerClient):
        client = kind(settings(kafka, **{"isolation.level": "read_committed"}))
        started = time.monotonic()
        assert offsets(client, Range(topic, 0, 0, 12)) == [0, 1, 2, 8, 9, 10]
        assert offsets(client, Range(topic, 0, 2, 8)) == [2]
        assert offsets(client, Range(topic, 0, 3, 8)) == []
        assert time.monotonic() - started < 10
        client.close()
        # As with Java's client, the default also reads what was not committed.
        client = kind(settings(kafka))
        assert offsets(client, Range(topic, 0, 0, 12)) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
        client.close()


def test_compaction_leaves_gaps(kafka: Broker, client: AnyClient) -> None:
    topic = kafka.topic(
        "compacted", config={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    )
    deadline, found = time.monotonic() + 60, [0]
    rounds = 0
    while len(found) == found[-1] + 1 and time.monotonic() < deadline:
        kafka.send(topic, ["old", "new"], key=b"same")
        rounds += 1
        time.sleep(0.3)
        found = offsets(client, Range(topic, 0, 0, 2 * rounds))
    assert found[-1] == 2 * rounds - 1
    assert len(found) < 2 * rounds


def test_truncated_topics_are_errors(kafka: Broker, client: AnyClient) -> None:
    topic = kafka.topic("truncated")
    kafka.send(topic, [str(number) for number in range(100)])
    asking = admin(kafka)
    for done in asking.delete_records([TopicPartition(topic, 0, 50)]).values():
        done.result(30)
    with pytest.raises(SourceError) as lost:
        offsets(client, Range(topic, 0, 10, 90))
    assert lost.value.code == "DATA_LOST"
    assert f"messages 10 to 89 of partition 0 of topic `{topic}` are gone" in lost.value.message
    assert "it has those from 50 to before 100" in lost.value.message
    assert "failOnDataLoss" in (lost.value.hint or "")
    assert offsets(client, Range(topic, 0, 10, 90), fails_on_loss=False) == list(range(50, 90))
    assert offsets(client, Range(topic, 0, 10, 40), fails_on_loss=False) == []


def test_topics_created_anew_are_errors(kafka: Broker, client: AnyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ranges, "_SETTLE_S", 1.0)
    topic = kafka.topic("anew")
    kafka.send(topic, [str(number) for number in range(100)])
    assert len(offsets(client, Range(topic, 0, 0, 10))) == 10
    created_anew(kafka, topic)
    kafka.send(topic, ["new"] * 5)
    for first in (10, 2):
        with pytest.raises(SourceError) as lost:
            offsets(client, Range(topic, 0, first, 90))
        assert lost.value.code == "DATA_LOST"
        assert "created anew" in lost.value.message


def created_anew(kafka: Broker, topic: str) -> None:
    asking = admin(kafka)
    for done in asking.delete_topics([topic]).values():
        done.result(30)
    time.sleep(1)
    for done in asking.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result(30)


def test_a_silent_broker_is_an_error_with_its_reason() -> None:
    client = Client({"bootstrap.servers": "127.0.0.1:1", "log_level": "2"})
    with pytest.raises(SourceError, match=r"no message came for 1 s: .*127\.0\.0\.1:1"):
        offsets(client, Range("t", 0, 0, 10), patience_s=1)
    client.close()


def test_login_and_certificate_are_translated() -> None:
    """A broker of its own, with the options that Spark's reader would get."""
    with running(lambda: available(SecuredKafka)) as server:
        broker = Broker(server)
        topic = broker.topic("secured")
        broker.send(topic, ["a", "b"])
        given = client_settings(server.options, "consumer")
        for kind in (Client, ConsumerClient):
            client = kind(given)
            assert offsets(client, Range(topic, 0, 0, 2)) == [0, 1]
            client.close()
        refused = Client(given | {"sasl.password": "wrong"})
        with pytest.raises(SourceError, match=r"no message came for 3 s: .*[Aa]uthentication"):
            offsets(refused, Range(topic, 0, 0, 2), patience_s=3)
        refused.close()
        untrusted = Client({name: value for name, value in given.items() if name != "ssl.ca.location"})
        with pytest.raises(SourceError, match=r"no message came for 3 s: .*(SSL|certificate)"):
            offsets(untrusted, Range(topic, 0, 0, 2), patience_s=3)
        untrusted.close()


class SecuredKafka(Kafka):
    """A broker that also has an address with TLS and login."""

    def __init__(self) -> None:
        super().__init__()
        self.options = self.secure()


@pytest.mark.spark
def test_checkpoints_go_on_whoever_fetches(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """Spark plans and records the offsets, so the reader of a stream can change between two starts."""
    topic = kafka.topic("readers", 3)
    query = "SELECT window_start, count(*) AS n, max(offset) AS last FROM t GROUP BY tumblingwindow('ss', 10)"
    expected = 0
    for start, reader in enumerate(["spark", "columnar", "spark"]):
        for partition in range(3):
            rows = [{"ms": 1000 * (10 * start + part), "v": part} for part in range(10)]
            kafka.send(topic, rows, partition)
        stream = kafka.stream(
            topic, "ms BIGINT, v BIGINT", scan=reader, eventtime={"column": "ms", "type": "unixtimestamp_ms"},
            options={"maxOffsetsPerTrigger": "20"},
        )  # fmt: skip
        settings = {
            "streams": {"t": stream},
            "options": {"eventtime": {"enabled": True}},
            "transforms": {"q": {"sql": query, "sink": "results"}},
        }
        job = Job(tmp_path, settings, "results")
        entries = job.run(spark)
        expected += 30
        assert entries[-1].totals["in_"] == entries[-1].totals["aggregated"] == expected
        assert len(entries) >= 2 * (start + 1)


def test_topics_have_identities_however_a_stream_names_them(kafka: Broker) -> None:
    topic = kafka.topic("named")

    def identities(**options: str) -> dict[str, str]:
        return topic_identities(Stream(format="kafka", schema="v BIGINT", options={**kafka.address, **options}))

    found = identities(subscribe=f"{topic}, ")
    assert found.keys() == {topic}
    assert identities(assign=f'{{"{topic}": [0]}}') == identities(subscribePattern=topic[:-1] + ".") == found
    created_anew(kafka, topic)
    deadline, again = time.monotonic() + 30, found
    while again in (found, {}) and time.monotonic() < deadline:  # the broker hears of the new topic a moment later
        again = identities(subscribe=topic)
    assert again.keys() == {topic}
    assert again != found
    assert identities(subscribe="nonesuch") == identities(subscribePattern="(") == {}


@pytest.mark.spark
def test_a_topic_created_anew_is_noticed_by_its_identity(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """The new topic has more messages than the checkpoint has read of the old one: offsets alone show nothing."""
    topic = kafka.topic("identity")
    kafka.send(topic, [{"v": 1}] * 5)

    def job(**options: str) -> Job:
        stream = {
            "format": "kafka",
            "schema": "v BIGINT",
            "options": {"subscribe": topic, "startingOffsets": "earliest", **kafka.address, **options},
        }
        query = {"sql": "SELECT count(*) AS n, sum(v) AS s FROM t GROUP BY countwindow(5)", "sink": "results"}
        return Job(tmp_path, {"streams": {"t": stream}, "transforms": {"q": query}}, "results")

    assert job().run(spark)[-1].totals["in_"] == 5
    created_anew(kafka, topic)
    kafka.send(topic, [{"v": 2}] * 10)
    with pytest.raises(SourceError) as lost:
        job().run(spark)
    assert lost.value.code == "DATA_LOST"
    assert f"topic `{topic}` of stream `t` was deleted and created anew" in lost.value.message
    again = job(failOnDataLoss="false")
    assert again.run(spark)[-1].totals["in_"] == 10
    assert projected(again.rows(), "n", "s") == [(5, 10)]
    kafka.send(topic, [{"v": 3}] * 5)
    assert job().run(spark)[-1].totals["in_"] == 15
