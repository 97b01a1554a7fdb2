"""librdkafka by ctypes: batches of messages straight into Arrow, without a Python object for each.

The library is the one that confluent-kafka brings along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from windowpane.remote.kafka import client_module
from windowpane.remote.message_batches import Messages, Wanted
from windowpane.remote.messages_by_library import take_messages

EOF, TIMED_OUT = -191, -185
"""Codes of librdkafka: the end of a partition was reached, and no answer in time."""
LIMITS = {"queued.min.messages": "20000", "fetch.queue.backoff.ms": "1", "fetch.wait.max.ms": "20"}
"""For large reads. What is fetched ahead behind the end of a range is lost: with 100,000 messages in place of 20,000,
ranges of 100,000 took a third longer. By default, librdkafka pauses for a second whenever enough messages wait, and
half a second at the end of a partition."""
DEFAULTS = {
    "enable.partition.eof": "true", "auto.offset.reset": "error", "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": str(8 * 1024 * 1024), **LIMITS,
}  # fmt: skip
"""`isolation.level` as in Java's client. librdkafka's own default is read_committed."""
_CONSUMER, _ERROR_BYTES = 1, 512
_ErrorCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class UnusableError(Exception):
    """librdkafka cannot be called by ctypes here."""


class ClientError(Exception):
    """librdkafka refuses a setting or a call."""


class Client:
    """A connection to the brokers. It reads one partition at a time."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._library = library()
        self._problem = ""
        self._told = _ErrorCallback(self._note)
        self.handle = self._made(DEFAULTS | dict(settings))
        self._topics: dict[str, int] = {}

    def _made(self, settings: Mapping[str, str]) -> int:
        blocking, error = self._library.blocking, ctypes.create_string_buffer(_ERROR_BYTES)
        conf = blocking.rd_kafka_conf_new()
        blocking.rd_kafka_conf_set_error_cb(conf, self._told)
        for name, value in settings.items():
            if blocking.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, _ERROR_BYTES) != 0:
                blocking.rd_kafka_conf_destroy(conf)
                raise ClientError(error.value.decode("utf-8", "replace"))
        made = blocking.rd_kafka_new(_CONSUMER, conf, error, _ERROR_BYTES)
        if not made:
            blocking.rd_kafka_conf_destroy(conf)
            raise ClientError(error.value.decode("utf-8", "replace"))
        return int(made)

    def _note(self, _client: int, code: int, reason: bytes | None, _opaque: int) -> None:
        self._problem = (reason or b"").decode("utf-8", "replace") or self.text_of(code)

    def problem(self) -> str:
        """The last error of a connection since the client was made, or an empty text."""
        self._library.blocking.rd_kafka_poll(self.handle, 0)
        return self._problem

    def text_of(self, code: int) -> str:
        return str(self._library.blocking.rd_kafka_err2str(code).decode())

    def bounds(self, topic: str, partition: int, timeout_s: float = 30) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        low, high = ctypes.c_int64(), ctypes.c_int64()
        code = self._library.blocking.rd_kafka_query_watermark_offsets(
            self.handle, topic.encode(), partition, ctypes.byref(low), ctypes.byref(high), int(timeout_s * 1000)
        )
        if code != 0:
            raise ClientError(self.text_of(code))
        return low.value, high.value

    def open(self, topic: str, partition: int, offset: int) -> Partition:
        """Fetch a partition from an offset on, until the result is closed."""
        if topic not in self._topics:
            self._topics[topic] = self._library.blocking.rd_kafka_topic_new(self.handle, topic.encode(), None)
        return Partition(self, self._topics[topic], partition, offset)

    def close(self) -> None:
        blocking = self._library.blocking
        for topic in self._topics.values():
            blocking.rd_kafka_topic_destroy(topic)
        self._topics = {}
        blocking.rd_kafka_destroy(self.handle)


class Partition:
    """A partition that is being fetched."""

    def __init__(self, client: Client, topic: int, partition: int, offset: int) -> None:
        self._client, self._library, self._topic, self._partition = client, library(), topic, partition
        self._queue = self._library.blocking.rd_kafka_queue_new(client.handle)
        if self._library.blocking.rd_kafka_consume_start_queue(topic, partition, offset, self._queue) != 0:
            code = self._library.blocking.rd_kafka_last_error()
            self._library.blocking.rd_kafka_queue_destroy(self._queue)
            raise ClientError(client.text_of(code))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def take(self, most: int, wait_s: float, wanted: Wanted) -> Messages:
        """Messages that have come: as soon as there are `most`, else what has come after `wait_s`."""
        pointers = np.empty(most, np.uint64)
        count = self._library.blocking.rd_kafka_consume_batch_queue(
            self._queue, int(wait_s * 1000), pointers.ctypes.data_as(ctypes.c_void_p), most
        )
        if count < 0:
            raise ClientError(self._client.text_of(self._library.blocking.rd_kafka_last_error()))
        library = self._library
        return take_messages(pointers[:count], library.blocking, library.quick, wanted, self._client.text_of)

    def close(self) -> None:
        self._library.blocking.rd_kafka_consume_stop(self._topic, self._partition)
        self._library.blocking.rd_kafka_queue_destroy(self._queue)


@dataclass(frozen=True)
class Library:
    """The same functions twice: `blocking` ones release Python's lock, `quick` ones are called for each message."""

    blocking: Any
    quick: Any


@cache
def library() -> Library:
    """The library as confluent-kafka has loaded it; UnusableError if its functions cannot be reached."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnusableError("this is not a 64-bit process")
    path = client_module("cimpl").__file__
    try:
        found = Library(ctypes.CDLL(path), ctypes.PyDLL(path))
        _declare(found.blocking)
        _declare(found.quick)
    except (OSError, AttributeError) as missing:
        raise UnusableError(str(missing)) from missing
    return found


def _declare(functions: Any) -> None:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    i32, i64, size = ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
    declared: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_destroy": (None, [pointer]),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, size]),
        "rd_kafka_conf_set_error_cb": (None, [pointer, _ErrorCallback]),
        "rd_kafka_conf_dump": (ctypes.POINTER(text), [pointer, ctypes.POINTER(size)]),
        "rd_kafka_conf_dump_free": (None, [ctypes.POINTER(text), size]),
        "rd_kafka_new": (pointer, [number, pointer, text, size]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_poll": (number, [pointer, number]),
        "rd_kafka_err2str": (text, [number]),
        "rd_kafka_last_error": (number, []),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_topic_destroy": (None, [pointer]),
        "rd_kafka_queue_new": (pointer, [pointer]),
        "rd_kafka_queue_destroy": (None, [pointer]),
        "rd_kafka_consume_start_queue": (number, [pointer, i32, i64, pointer]),
        "rd_kafka_consume_stop": (number, [pointer, i32]),
        "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [pointer, number, pointer, size]),
        "rd_kafka_message_destroy": (None, [pointer]),
        "rd_kafka_message_timestamp": (i64, [pointer, ctypes.POINTER(number)]),
        "rd_kafka_query_watermark_offsets": (
            number,
            [pointer, text, i32, ctypes.POINTER(i64), ctypes.POINTER(i64), number],
        ),
    }
    for name, (gives, takes) in declared.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = gives, takes
