"""Streams as Kafka topics: every row a message of JSON, rows dealt to the partitions in turns, so that all of them come
forward in time together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.nexmark.message_values import ValueFormat, encoded, write_schema
from scripts.servers import Kafka, UnavailableError, running

PARTITIONS = 2
CONSUMER = {"max.poll.records": 10_000, "max.partition.fetch.bytes": 8 * 1024 * 1024}
"""What every engine's client is given. By itself it fetches little at a time, and a backlog is slow to read."""
PATIENCE_S = 60.0
SLICE = 50_000
"""Messages that are handed over at once: far fewer than the producer's queue takes."""


class TopicError(Exception):
    """A topic did not take its rows."""


@dataclass(frozen=True)
class Topic:
    """`rows`: without those that complete all windows. `broker_pid`: whose work is part of every engine's run."""

    servers: str
    name: str
    rows: int
    broker_pid: int
    value_format: ValueFormat = "json"
    schema_file: str = ""
    """Of values that are not JSON."""


@contextlib.contextmanager
def broker(*, wanted: bool) -> Iterator[Kafka | str]:
    """A broker for the length of a block, or why there is none."""
    with contextlib.ExitStack() as stack:
        started: Kafka | str = "no broker was asked for"
        if wanted:
            try:
                started = stack.enter_context(running(Kafka))
            except (UnavailableError, RuntimeError, TimeoutError) as failed:
                started = f"no Kafka broker: {failed}"
        yield started


def fill(server: Kafka, name: str, folder: Path, rows: int, value_format: ValueFormat = "json") -> Topic:
    """A new topic with the lines of a folder's files, in the order of the files; `rows` of them, and the last."""
    with TopicWriter(server.address, name) as topic:
        for file in sorted(folder.iterdir()):
            topic.write(encoded(file.read_bytes(), value_format))
    schema = "" if value_format == "json" else str(write_schema(value_format, folder.parent))
    return Topic(server.address, name, rows, server.pid, value_format, schema)


class TopicWriter:
    """Fills a topic, which is made if it is not there. That all is there to be read is asked for at the end."""

    def __init__(self, servers: str, name: str) -> None:
        self._servers, self._name = servers, name
        self._producer = Producer(
            {
                "bootstrap.servers": servers, "log_level": 0, "linger.ms": 20, "batch.num.messages": 100_000,
                "batch.size": 900_000, "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )  # fmt: skip
        self._before = 0 if _made(servers, name) else self._messages()
        self.written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_details: object) -> None:
        if raised is None and self._messages() - self._before < self.written:
            raise TopicError(f"topic {self._name}: not all of {self.written:,} messages have come")

    def write(self, values: list[bytes]) -> None:
        """A single message goes to every partition: it is the one that completes all windows."""
        for partition in range(PARTITIONS):
            mine = values if len(values) == 1 else values[partition::PARTITIONS]
            for first in range(0, len(mine), SLICE):
                self._send([{"value": value} for value in mine[first : first + SLICE]], partition)
            self.written += len(mine)
        if self._producer.flush(PATIENCE_S):
            raise TopicError(f"topic {self._name}: the broker at {self._servers} takes no messages")

    def _send(self, messages: list[dict[str, bytes]], partition: int) -> None:
        if self._producer.produce_batch(self._name, messages, partition=partition) != len(messages):
            self._producer.flush(PATIENCE_S)
            raise TopicError(f"topic {self._name}: the producer took fewer than {len(messages):,} messages")

    def _messages(self) -> int:
        """How many can be read."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "bench", "log_level": 0})
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(self._name, partition), timeout=PATIENCE_S)
                for partition in range(PARTITIONS)
            ]
        finally:
            consumer.close()
        return sum(high - low for low, high in ends)


def _made(servers: str, name: str) -> bool:
    """Whether the topic was not there before."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    if name in admin.list_topics(timeout=PATIENCE_S).topics:
        return False
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        made.result(PATIENCE_S)
    return True
