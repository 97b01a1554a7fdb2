"""Reads a few messages of Kafka topics with Kafka's own client, without Spark."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from windowpane.errors import ConfigError, nearest
from windowpane.remote.kafka import SERVERS, UntranslatableError, client_module, client_settings, connection_settings

MESSAGES = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip
ANSWER_SECONDS, READ_SECONDS = 10.0, 20.0
"""How long a broker may take to answer at all, and to hand over a sample."""
_SHOWN = 10
_Message = tuple[bytes | None, bytes | None, str, int, int, int | None]


def sample_messages(
    options: Mapping[str, str], topics: Sequence[str] | re.Pattern[str], count: int, *, newest: bool
) -> tuple[pa.Table, bool]:
    """At most about `count` messages of all partitions, oldest first in each, and whether these are all there are.

    `newest`: the last messages instead of the first. ConfigError if the broker or a topic cannot be read.
    """
    try:
        settings = connection_settings(client_settings(options, "consumer"))
    except UntranslatableError as refused:
        raise ConfigError("UNSUPPORTED_OPTION", f"Kafka's own client reads the sample: {refused}") from refused
    module = client_module()
    reader = module.Consumer({
        **settings, "group.id": "windowpane-preview", "enable.auto.commit": False, "enable.partition.eof": True,
        "isolation.level": options.get("kafka.isolation.level", "read_committed"),
    })  # fmt: skip
    servers = options.get(SERVERS, "")
    try:
        found = _topics(reader, topics, servers)
        return _read(reader, module, found, count, newest=newest)
    except module.KafkaException as failed:
        message = f"the Kafka broker at `{servers}` cannot be read: {failed.args[0].str()}"
        raise ConfigError("BROKER_UNREACHABLE", message, "check the address, and whether the broker runs") from failed
    finally:
        reader.close()


def _topics(reader: Any, wanted: Sequence[str] | re.Pattern[str], servers: str) -> dict[str, list[int]]:
    """The partitions of each topic. One that does not exist must not be created by asking for it by name."""
    known = {
        name: sorted(topic.partitions) for name, topic in reader.list_topics(timeout=ANSWER_SECONDS).topics.items()
    }
    if isinstance(wanted, re.Pattern):
        found = {name: numbers for name, numbers in known.items() if wanted.fullmatch(name)}
        if not found:
            message = f"no topic of the Kafka broker at `{servers}` matches `{wanted.pattern}`"
            raise ConfigError("UNKNOWN_TOPIC", message, _hint(wanted.pattern, known))
        return found
    for name in wanted:
        if name not in known:
            message = f"the Kafka broker at `{servers}` has no topic `{name}`"
            raise ConfigError("UNKNOWN_TOPIC", message, _hint(name, known))
    return {name: known[name] for name in wanted}


def _hint(name: str, known: Mapping[str, object]) -> str:
    own = [each for each in known if not each.startswith("__")]
    return f"topics, nearest first: {', '.join(nearest(name, own).split(', ')[:_SHOWN])}"


def _read(
    reader: Any, module: Any, topics: Mapping[str, list[int]], count: int, *, newest: bool
) -> tuple[pa.Table, bool]:
    places = [module.TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers]
    share = max(count // max(len(places), 1), 1)
    ends: dict[tuple[str, int], int] = {}
    whole = True
    for place in places:
        low, high = reader.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        place.offset = max(low, high - share) if newest else low
        whole &= high - low <= share
        if place.offset < high:
            ends[place.topic, place.partition] = high if newest else min(high, low + share)
    reader.assign([place for place in places if (place.topic, place.partition) in ends])
    rows = _consumed(reader, module, ends)
    columns = list(zip(*rows, strict=True)) or [()] * len(MESSAGES)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, MESSAGES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=MESSAGES), whole


def _consumed(reader: Any, module: Any, ends: Mapping[tuple[str, int], int]) -> list[_Message]:
    """Messages below the offset `ends` of each partition. Transactions and compaction leave gaps."""
    left, rows, deadline = dict(ends), [], time.monotonic() + READ_SECONDS
    while left and time.monotonic() < deadline:
        for message in reader.consume(1_000, 1.0):
            place = (message.topic(), message.partition())
            error = message.error()
            if error is None:
                if message.offset() < ends[place]:
                    rows.append(_row(message, module))
                if message.offset() >= ends[place] - 1:
                    left.pop(place, None)
            elif error.code() == module.KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                left.pop(place, None)
            else:
                raise module.KafkaException(error)
    return sorted(rows, key=lambda row: row[2:5])


def _row(message: Any, module: Any) -> _Message:
    kind, at_ms = message.timestamp()
    stamp = None if kind == module.TIMESTAMP_NOT_AVAILABLE else at_ms * 1_000
    return message.key(), message.value(), message.topic(), message.partition(), message.offset(), stamp
