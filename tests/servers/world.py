"""What tests do with a broker and a database: topics filled and read, tables read, pipelines between them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from scripts.servers import Kafka, Postgres
from windowpane.checkpoint.ledger import Entry
from windowpane.connectors.sinks import MemorySink, Sink
from windowpane.runtime import Pipeline, RunningPipeline

_numbers = itertools.count()


@dataclass(frozen=True)
class Message:
    key: str | None
    value: Any
    headers: Mapping[str, str]


class Broker:
    """Topics of a running Kafka."""

    def __init__(self, server: Kafka) -> None:
        self.server = server
        self._client: dict[str, Any] = {"bootstrap.servers": server.address, "log_level": 0}

    def topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """A new topic, whose name no other test has."""
        whole = f"{name}-{next(_numbers)}"
        client = AdminClient(self._client)
        for made in client.create_topics([NewTopic(whole, partitions, 1, config=config or {})]).values():
            made.result(30)
        return whole

    def send(
        self,
        topic: str,
        rows: Iterable[Any],
        partition: int = 0,
        *,
        at_ms: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """One message a row: dicts as JSON, texts and bytes as they are."""
        producer = Producer(self._client)
        for row in rows:
            value = json.dumps(row) if isinstance(row, dict) else row
            producer.produce(topic, value, key, partition, timestamp=at_ms or 0)
        assert producer.flush(30) == 0

    def read(self, topic: str, *, committed: bool = False) -> list[Message]:
        """All that is in a topic; `committed`: without what transactions have not committed."""
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer({
            **self._client, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": level,
        })  # fmt: skip
        left = set(consumer.list_topics(topic, 10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        found: list[Message] = []
        while left:
            message = consumer.poll(10)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                left.discard(message.partition() or 0)
                continue
            key = message.key()
            headers: list[Any] = list(message.headers() or ())
            named = {name: value.decode() for name, value in headers}
            found.append(Message(key.decode() if key else None, json.loads(message.value() or ""), named))
        consumer.close()
        return found

    def stream(self, topic: str, schema: str | None, **settings: Any) -> dict[str, Any]:
        """Settings of a stream that reads a topic from its beginning."""
        options = {"subscribe": topic, "startingOffsets": "earliest", **settings.pop("options", {})}
        declared = {"schema": schema} if schema else {}
        return {"format": "kafka", **declared, **settings, "options": options | self.address}

    def sink(self, topic: str, **settings: Any) -> dict[str, Any]:
        return {"format": "kafka", "options": {"topic": topic, **self.address}, **settings}

    @property
    def address(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.server.address}


class Database:
    """Tables of a running PostgreSQL."""

    def __init__(self, server: Postgres) -> None:
        self.server, self.url = server, server.url

    def sink(self, table: str, **settings: Any) -> dict[str, Any]:
        return {"format": "postgres", "options": {"url": self.url, "table": table}, **settings}

    def rows(self, query: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()

    def there(self, table: str) -> bool:
        return bool(self.rows(f"SELECT to_regclass('{table}') IS NOT NULL AS there")[0]["there"])


class Job:
    """A pipeline of one transform `q` in a folder of its own, run as far as there is input."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], *memory: str) -> None:
        self.folder = folder
        self.memory = {name: MemorySink(name) for name in memory}
        options = {"trigger": "available_now", "checkpoint": "state", "shards": 2, "max_future_skew": "off"}
        sinks = {name: {"format": "memory"} for name in memory} | dict(settings.get("sinks", {}))
        self.settings = {**settings, "options": {**options, **settings.get("options", {})}, "sinks": sinks}

    def pipeline(self, **given: Sink) -> Pipeline:
        return Pipeline.from_dict(self.settings, self.folder, sinks={**self.memory, **given})

    def start(self, spark: SparkSession) -> RunningPipeline:
        return self.pipeline().start(spark)

    def run(self, spark: SparkSession, *, drain: bool = False) -> list[Entry]:
        """All that is there; gives the whole ledger."""
        running = self.start(spark)
        try:
            running.wait()
            if drain:
                running.drain()
        finally:
            if not drain:
                running.stop()
        return self.entries()

    def entries(self) -> list[Entry]:
        pipeline = self.pipeline()
        ledger = pipeline.checkpoint(pipeline.plans[0]).ledger
        return [entry for batch in ledger.batch_ids() if (entry := ledger.read(batch)) is not None]

    def rows(self, sink: str = "results") -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.memory[sink].rows]

    def records(self, sink: str = "dlq") -> list[dict[str, Any]]:
        return [json.loads(row[0]) for row in self.memory[sink].rows]


def routes_to(sink: str, *kinds: str) -> dict[str, Any]:
    """Routes of side rows to one sink, with their original events."""
    return {kind: {"sink": sink, "include_original": True} for kind in kinds}


def projected(rows: Iterable[Mapping[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of rows, sorted, to compare."""
    return sorted(tuple(row[column] for column in columns) for row in rows)
