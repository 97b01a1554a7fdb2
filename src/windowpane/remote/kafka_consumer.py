"""Batches of messages from the consumer of confluent-kafka, where ctypes does not reach librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from windowpane.remote.kafka import client_module
from windowpane.remote.librdkafka import DEFAULTS, ClientError
from windowpane.remote.message_batches import Event, Messages, Wanted


class ConsumerClient:
    """Does what `librdkafka.Client` does."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._module = client_module()
        self._problem = ""
        own = {"group.id": "windowpane", "enable.auto.commit": "false", "error_cb": self._note}
        try:
            self._consumer: Any = self._module.Consumer(DEFAULTS | dict(settings) | own)
        except self._module.KafkaException as refused:
            raise ClientError(str(refused.args[0].str())) from refused

    def _note(self, error: Any) -> None:
        self._problem = error.str()

    def problem(self) -> str:
        """The last error of a connection since the client was made, or an empty text."""
        return self._problem

    def bounds(self, topic: str, partition: int, timeout_s: float = 30) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._module.TopicPartition(topic, partition), timeout_s)
        except self._module.KafkaException as failed:
            raise ClientError(str(failed.args[0].str())) from failed
        return low, high

    def open(self, topic: str, partition: int, offset: int) -> ConsumedPartition:
        """Fetch a partition from an offset on, until the result is closed."""
        self._consumer.assign([self._module.TopicPartition(topic, partition, offset)])
        return ConsumedPartition(self._consumer)

    def close(self) -> None:
        self._consumer.close()


class ConsumedPartition:
    """Does what `librdkafka.Partition` does."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def take(self, most: int, wait_s: float, wanted: Wanted) -> Messages:
        """Messages that have come: as soon as there are `most`, else what has come after `wait_s`."""
        came = self._consumer.consume(most, wait_s)
        events = tuple(
            Event(error.code(), message.offset(), error.str())
            for message in came
            if (error := message.error()) is not None
        )
        found = [message for message in came if message.error() is None] if events else came
        times = [message.timestamp()[1] if message.timestamp()[0] else -1 for message in found] if wanted.time else None
        return Messages(
            offsets=np.array([message.offset() for message in found], np.int64),
            values=pa.array([message.value() for message in found], pa.binary()),
            keys=pa.array([message.key() for message in found], pa.binary()) if wanted.key else None,
            times_ms=None if times is None else np.array(times, np.int64),
            events=events,
        )

    def close(self) -> None:
        self._consumer.unassign()
