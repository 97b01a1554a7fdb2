"""Fetches the messages that Spark's Kafka source has planned for a task, with librdkafka.

Spark's source plans a micro-batch as ranges of offsets and records them in the checkpoint, but fetches nothing: tasks
get the ranges. A range ends by offset, not by count: transactions and compaction leave gaps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import ConfigError, InternalError, SourceError
from windowpane.remote.kafka_consumer import ConsumedPartition, ConsumerClient
from windowpane.remote.librdkafka import EOF, Client, ClientError, Partition, UnusableError
from windowpane.remote.message_batches import Event, Messages, Wanted
from windowpane.scan.ahead import ahead
from windowpane.scan.message_columns import FIRST, KEY, MARK, MARKED, PARTITION, TOPIC, UNTIL, VALUE
from windowpane.scan.messages import MessageReader
from windowpane.scan.scan import Part

AnyClient: TypeAlias = Client | ConsumerClient
_LOG = logging.getLogger(__name__)
BATCH = 50_000
"""Messages that are handed over at once."""
_WAIT_S = 0.05
_SETTLE_S = 10.0
"""How long the end of a partition may be before the end of a range. A new leader may know less for a moment."""
_GONE = frozenset({1, -140})
"""Codes of librdkafka: an offset is out of range."""
_UNKNOWN = frozenset({3, -188, -190})
"""No such topic or partition."""
_WHY = "They were deleted, or the topic was created anew"
_BEGIN = "begin anew with the topic as it is now: windowpane reset"
_RESUME = (
    "go on without them with failOnDataLoss = false in the options of the stream, or begin anew with windowpane reset; "
    "raise the retention of the topic if it deletes messages before they are read"
)


@dataclass(frozen=True)
class Range:
    """Messages of a partition with offsets from `first` to before `until`."""

    topic: str
    partition: int
    first: int
    until: int

    @property
    def place(self) -> str:
        return f"partition {self.partition} of topic `{self.topic}`"


@dataclass(frozen=True)
class Fetching:
    """How messages are fetched."""

    settings: tuple[tuple[str, str], ...] = field(repr=False)
    """Of librdkafka. They may contain passwords."""
    fails_on_loss: bool = True
    patience_s: float = 120
    """How long to wait for the next message."""


@dataclass(frozen=True)
class RangeReader:
    """Reads the messages of ranges. `messages` decodes them."""

    messages: MessageReader
    fetching: Fetching

    @property
    def place(self) -> tuple[str, ...]:
        return self.messages.place

    @property
    def schema(self) -> pa.Schema:
        return self.messages.schema

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        return self.messages.read(self._records(handed))

    def _records(self, handed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = {name for name, _ in self.messages.beside}
        wanted = Wanted(
            key="key" in names or self.messages.key_codec is not None, time=bool(names & {"timestamp", SOURCE_TIME})
        )
        ranges = [one for batch in handed for one in ranges_of(batch)]
        return (self._record_batch(messages, each) for messages, each in ahead(self._fetched(ranges, wanted)))

    def _fetched(self, ranges: Sequence[Range], wanted: Wanted) -> Iterator[tuple[Messages, Range]]:
        for each in ranges:
            client = _client(self.fetching.settings)
            for messages in fetched(client, each, wanted, self.fetching):
                yield messages, each

    def _record_batch(self, messages: Messages, source: Range) -> pa.RecordBatch:
        """The columns that Spark's source would give, as far as they are used."""
        count = len(messages.offsets)
        columns = {VALUE: messages.values, PARTITION: _repeated(source.partition, pa.int32(), count)}
        if self.messages.key_codec is not None:
            columns[KEY] = messages.keys
        if self.messages.several_topics:
            columns[TOPIC] = _repeated(source.topic, pa.string(), count)
        for name, _ in self.messages.beside:
            columns[name] = _column(name, messages, source)
        return pa.RecordBatch.from_pydict(columns)


def _column(name: str, messages: Messages, source: Range) -> pa.Array:
    count = len(messages.offsets)
    if name == "topic":
        return _repeated(source.topic, pa.string(), count)
    if name == "partition":
        return _repeated(source.partition, pa.int32(), count)
    if name == "offset":
        return pa.array(messages.offsets)
    if name == "key":
        return _text(messages.keys)
    assert messages.times_ms is not None, "only then the column is read"
    return pa.array(messages.times_ms * 1000).cast(pa.timestamp("us", "UTC"))


def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def ranges_of(batch: pa.RecordBatch) -> list[Range]:
    """The ranges that the driver has put in place of messages."""
    if any(mark != MARKED for mark in batch.column(MARK).to_pylist()):
        raise InternalError(
            "KAFKA_RANGES", "Spark has fetched messages, although workers fetch them",
            'set scan = "spark" for the stream, and report this with the versions of Spark and its Kafka connector',
        )  # fmt: skip
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", FIRST, UNTIL))
    return [Range(*values) for values in zip(*columns, strict=True)]


@cache
def _client(settings: tuple[tuple[str, str], ...]) -> AnyClient:
    """Clients stay for the life of a worker: a new one has to connect first."""
    try:
        try:
            return Client(dict(settings))
        except UnusableError:
            return ConsumerClient(dict(settings))
    except ClientError as refused:
        raise ConfigError("BAD_VALUE", f"librdkafka refuses the options of a Kafka stream: {refused}") from refused


def fetched(client: AnyClient, source: Range, wanted: Wanted, fetching: Fetching) -> Iterator[Messages]:
    """The messages of a range in their order."""
    return _RangeFetch(client, source, wanted, fetching).messages()


class _RangeFetch:
    def __init__(self, client: AnyClient, source: Range, wanted: Wanted, fetching: Fetching) -> None:
        self._client, self._source, self._wanted, self._fetching = client, source, wanted, fetching
        self._position = source.first
        self._until_s = 0.0
        self._end: int | None = None
        """Where the partition ends, if that is before the end of the range."""

    def messages(self) -> Iterator[Messages]:
        try:
            while self._position < self._source.until:
                with self._client.open(self._source.topic, self._source.partition, self._position) as partition:
                    yield from self._taken(partition)
        except ClientError as failed:
            raise self._unread(str(failed)) from failed

    def _taken(self, partition: Partition | ConsumedPartition) -> Iterator[Messages]:
        """Until the range ends, or the partition has to be opened again elsewhere."""
        source = self._source
        self._until_s, self._end = time.monotonic() + self._fetching.patience_s, None
        while self._position < source.until:
            came = partition.take(min(BATCH, source.until - self._position), _WAIT_S, self._wanted)
            if len(came.offsets):
                self._until_s, self._end = time.monotonic() + self._fetching.patience_s, None
                self._position = min(int(came.offsets[-1]) + 1, source.until)
                yield _before(came, source.until)
            moved = [self._moves(event) for event in came.events]
            if any(moved):
                return
            if time.monotonic() > self._until_s:
                self._give_up()

    def _moves(self, event: Event) -> bool:
        """Whether the partition has to be opened anew, at another position."""
        if event.code == EOF:
            if event.offset >= self._source.until:
                self._position = self._source.until
            else:
                self._end, self._until_s = event.offset, min(self._until_s, time.monotonic() + _SETTLE_S)
            return False
        if event.code in _GONE:
            self._skip(*self._client.bounds(self._source.topic, self._source.partition))
            return True
        if event.code in _UNKNOWN:
            raise SourceError("DATA_LOST", f"{self._source.place} does not exist any more", _BEGIN)
        raise self._unread(event.text)

    def _skip(self, low: int, high: int) -> None:
        """Go on behind messages that are gone, if the stream allows it."""
        lost = f"messages {self._position} to {self._source.until - 1} of {self._source.place} are gone"
        now = f"it has those from {low} to before {high}"
        if self._fetching.fails_on_loss:
            raise SourceError("DATA_LOST", f"{lost}, all or in part: {now}. {_WHY}", _RESUME)
        _LOG.warning("%s, all or in part: %s; they are left out", lost, now)
        self._position = low if self._position < low < self._source.until else self._source.until

    def _give_up(self) -> None:
        if self._end is not None:
            self._skip(self._client.bounds(self._source.topic, self._source.partition)[0], self._end)
            return
        problem = self._client.problem()
        waited = f"no message came for {self._fetching.patience_s:g} s"
        raise self._unread(f"{waited}: {problem}" if problem else waited)

    def _unread(self, why: str) -> SourceError:
        return SourceError(
            "SOURCE_READ", f"{self._source.place} cannot be read from offset {self._position} on: {why}",
            'correct the options of the stream that begin with kafka., or let Spark read it: scan = "spark"',
        )  # fmt: skip


def _before(messages: Messages, until: int) -> Messages:
    count = int(np.searchsorted(messages.offsets, until))
    if count == len(messages.offsets):
        return messages
    return Messages(
        offsets=messages.offsets[:count],
        values=messages.values[:count],
        keys=None if messages.keys is None else messages.keys[:count],
        times_ms=None if messages.times_ms is None else messages.times_ms[:count],
    )


def _text(values: pa.Array) -> pa.Array:
    """Bytes as text, with U+FFFD in place of invalid UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        found = (None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist())
        return pa.array(found, pa.string())
