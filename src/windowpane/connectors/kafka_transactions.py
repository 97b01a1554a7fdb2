"""Transactions of Kafka: messages, and the number of their batch in a compacted topic, become visible together.

A writer is a sink of a transform on one checkpoint. Its transactional id fences off an earlier process: Kafka ends the
earlier one's transaction when the next one begins, and refuses its messages from then on.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import LatestSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from windowpane.remote.kafka import connection_settings

Message = tuple[str | bytes | None, str | bytes | None, list[tuple[str, bytes]]]
"""Value, key and headers."""
REQUEST_SECONDS = 30.0
COMMIT_SECONDS = 120.0
PARTITIONS = 16
"""Of the topic of numbers: a writer waits for open transactions of others in its partition."""
_DEFAULTS = {
    "transaction.timeout.ms": "300000",  # how long readers wait for a process that was killed and not started again
    "linger.ms": "20",
    "partitioner": "murmur2_random",  # as Java's client, so that a key stays in its partition
}


@dataclass(frozen=True)
class BatchNumber:
    """The last batch of a writer. `fence`: which process has written it."""

    batch_id: int
    final: bool = False
    fence: int = 0


class NotCompactedError(Exception):
    """The topic of numbers would lose them after a time."""


def admin_client(settings: Mapping[str, str]) -> AdminClient:
    """A client that neither reads nor writes."""
    return AdminClient(dict(connection_settings(settings)))


class BatchNumbers:
    """The compacted topic that has, for each writer, the number of its last batch."""

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self.topic, self._settings = topic, connection_settings(settings)
        self._partitions = 0

    def ensure(self) -> None:
        """Create the topic if it is missing. NotCompactedError if it is not compacted."""
        admin = admin_client(self._settings)
        wanted = NewTopic(self.topic, PARTITIONS, -1, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([wanted])[self.topic].result(REQUEST_SECONDS)
        except KafkaException as failed:
            if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                self._require_topic(admin, failed)
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        try:
            described = admin.describe_configs([resource])[resource].result(REQUEST_SECONDS)
        except KafkaException:
            return  # the user may not see it
        if "compact" not in str(described["cleanup.policy"].value) or "delete" in str(
            described["cleanup.policy"].value
        ):
            raise NotCompactedError(described["cleanup.policy"].value)

    def _require_topic(self, admin: AdminClient, failed: KafkaException) -> None:
        """The user may not create topics, but this one may be there."""
        if admin.list_topics(self.topic, REQUEST_SECONDS).topics[self.topic].error is not None:
            raise failed

    def last(self, writer: str, *, wait: bool = True) -> BatchNumber | None:
        """The number that the writer has committed last. Open transactions hide numbers: `wait` until they end."""
        found: BatchNumber | None = None
        for key, value in self._committed(self.partition(writer), wait=wait):
            if key == writer.encode():
                found = BatchNumber(**json.loads(value))
        return found

    def partition(self, writer: str) -> int:
        """Where the numbers of a writer are."""
        if not self._partitions:
            self._partitions = len(
                admin_client(self._settings).list_topics(self.topic, REQUEST_SECONDS).topics[self.topic].partitions
            )
        return zlib.crc32(writer.encode()) % self._partitions

    def _committed(self, partition: int, *, wait: bool) -> Iterable[tuple[bytes, bytes]]:
        reader = Consumer({
            **self._settings, "group.id": "windowpane", "enable.auto.commit": False, "enable.partition.eof": True,
            "isolation.level": "read_committed", "auto.offset.reset": "error",
        })  # fmt: skip
        end, deadline = self._end(partition) if wait else 0, time.monotonic() + COMMIT_SECONDS
        try:
            reader.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING)])
            while time.monotonic() < deadline:
                for message in reader.consume(1000, 1.0):
                    error = message.error()
                    if error is None:
                        yield message.key() or b"", message.value() or b"{}"
                    elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                        raise KafkaException(error)
                    elif (message.offset() or 0) >= end:
                        return
        finally:
            reader.close()
        raise _timed_out(f"topic {self.topic}: a transaction of another writer does not end")

    def _end(self, partition: int) -> int:
        """The end of a partition, with transactions that are still open."""
        place, admin = TopicPartition(self.topic, partition), admin_client(self._settings)
        latest: Any = LatestSpec  # it has no types
        asked = admin.list_offsets({place: latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        return int(asked[place].result(REQUEST_SECONDS).offset)


class TransactionalWriter:
    """Writes batches of one writer to a topic, each in one transaction. Knows the number of its last batch."""

    def __init__(self, topic: str, writer: str, numbers: BatchNumbers, settings: Mapping[str, str]) -> None:
        self._topic, self._writer, self._numbers = topic, writer, numbers
        self._producer = Producer({**_DEFAULTS, **settings, "transactional.id": writer})
        self._producer.init_transactions(COMMIT_SECONDS)
        # Read after the earlier process's transaction has ended, one way or the other.
        self.last = numbers.last(writer)
        self._partition = numbers.partition(writer)

    def write(self, number: BatchNumber, batches: Iterable[Iterable[Message]], check: Callable[[], None]) -> None:
        """Send the messages and commit. `check` is called before they become visible."""
        self._producer.begin_transaction()
        try:
            for messages in batches:
                for value, key, headers in messages:  # the client takes messages with headers one by one
                    self._send(self._topic, value, key, headers)
            self._flush()
            # The number comes last: an open transaction hides those of others behind it.
            self._send(self._numbers.topic, json.dumps(asdict(number)), self._writer, [], self._partition)
            self._flush()
            check()
            self._producer.commit_transaction(COMMIT_SECONDS)
        except BaseException:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(REQUEST_SECONDS)
            raise
        self.last = number

    def _send(self, topic: str, value: Any, key: Any, headers: Any, partition: int = -1) -> None:
        while True:
            try:
                return self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._producer.poll(0.1)

    def _flush(self) -> None:
        if self._producer.flush(COMMIT_SECONDS):
            raise _timed_out(f"topic {self._topic}: messages were not acknowledged in {COMMIT_SECONDS:g} s")

    def close(self) -> None:
        """The client itself ends with the last reference: its `close` fails after an error that is fatal to it."""
        with contextlib.suppress(KafkaException):
            self._producer.purge()


def _timed_out(what: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, what))  # noqa: SLF001  # its name
