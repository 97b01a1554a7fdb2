"""Reads back what a checkpoint has written to a topic exactly once, for `windowpane backfill --check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windowpane.connectors.kafka_messages import GROUP_KEY_BEGINS, result_columns
from windowpane.connectors.read_back import ORDER, ReadBack, Written
from windowpane.connectors.sinks import EMIT_EPOCH, GROUP_KEY, IDENTITY, IS_FINAL, WHOLE_JSON, WINDOW_ID
from windowpane.errors import SinkError, gist
from windowpane.remote.kafka import connection_settings

_FOUND = pa.schema([
    ("value", pa.string()), (WINDOW_ID, pa.string()), (GROUP_KEY, pa.string()), (EMIT_EPOCH, pa.int64()),
    (IS_FINAL, pa.bool_()), (ORDER, pa.int64()),
])  # fmt: skip


def read_results(topic: str, settings: Mapping[str, str], expected: DataFrame, written: Written) -> ReadBack:
    """Both sides with the values that JSON restores: a NaN is no number there."""
    own = result_columns(expected)
    form = StructType([field for field in expected.schema.fields if field.name not in IDENTITY])
    identity = [name for name in expected.columns if name in IDENTITY]
    as_text = expected.select(F.to_json(F.struct(*own), WHOLE_JSON).alias("value"), *identity)
    found = [_row(message, number) for number, message in enumerate(_committed(topic, settings, written, side=False))]
    emitted = expected.sparkSession.createDataFrame(pa.Table.from_pylist(found, _FOUND))

    def restored(frame: DataFrame, *more: str) -> pa.Table:
        whole = frame.select(F.from_json("value", form, WHOLE_JSON).alias("row"), *identity, *more)
        return whole.select("row.*", *identity, *more).toArrow()

    return ReadBack(restored(as_text), restored(emitted, ORDER))


def read_side_records(topic: str, settings: Mapping[str, str], written: Written) -> list[str]:
    """The side records of a transform as JSON."""
    return [(message.value() or b"").decode() for message in _committed(topic, settings, written, side=True)]


def side_messages(topic: str, settings: Mapping[str, str], whose: Sequence[Written]) -> list[tuple[int, str]]:
    """Side records as JSON, each with its batch."""
    return [
        (int(_headers(message).get("batch_id", -1)), (message.value() or b"").decode())
        for written in whose
        for message in _committed(topic, settings, written, side=True)
    ]


def count_messages(topic: str, settings: Mapping[str, str], whose: Sequence[Written], *, side: bool) -> dict[int, int]:
    """How many committed messages each batch has in a topic."""
    counts: Counter[int] = Counter()
    for written in whose:
        for message in _committed(topic, settings, written, side=side):
            counts[int(_headers(message).get("batch_id", -1))] += 1
    return dict(counts)


def _row(message: Any, number: int) -> dict[str, Any]:
    headers, key = _headers(message), (message.key() or b"").decode()
    return {
        "value": (message.value() or b"").decode(), WINDOW_ID: headers.get("window_id"),
        GROUP_KEY: key.partition(GROUP_KEY_BEGINS)[2][:-1] or None,
        EMIT_EPOCH: int(headers["emit_epoch"]) if "emit_epoch" in headers else None,
        IS_FINAL: headers.get("is_final") == "true", ORDER: number,
    }  # fmt: skip


def _headers(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or ()}


def _committed(topic: str, settings: Mapping[str, str], written: Written, *, side: bool) -> Iterator[Any]:
    """Messages of a run in the order of each partition, and so of each key."""
    try:
        for message in _all_committed(topic, settings):
            headers = _headers(message)
            whose = (headers.get("transform"), headers.get("run"), "side" in headers)
            if whose == (written.transform, written.run, side):
                yield message
    except KafkaException as failed:
        raise SinkError("SINK_READ", f"topic `{topic}` could not be read: {gist(failed)}") from failed


def _all_committed(topic: str, settings: Mapping[str, str]) -> Iterator[Any]:
    reader = Consumer({
        **connection_settings(settings), "group.id": "windowpane", "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": "read_committed", "auto.offset.reset": "error",
    })  # fmt: skip
    try:
        left = set(reader.list_topics(topic, 30).topics[topic].partitions)
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(left)])
        while left:
            for message in reader.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        reader.close()
