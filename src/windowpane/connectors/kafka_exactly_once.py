"""The Kafka sink with `delivery = "exactly_once"`: the driver writes each batch in one transaction.

Readers with `isolation.level = read_committed` see each result once. A batch whose number is recorded is skipped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windowpane.checkpoint.lease import lease_lost
from windowpane.connectors.collecting import tables
from windowpane.connectors.kafka_messages import messages
from windowpane.connectors.read_back import ReadBack, Written
from windowpane.connectors.sinks import Sink, SinkBatch
from windowpane.errors import ConfigError, SinkError, gist
from windowpane.remote.access import Access
from windowpane.remote.kafka import PREFIX, UntranslatableError, client_module, client_settings

if TYPE_CHECKING:
    from windowpane.connectors.kafka_transactions import BatchNumber, BatchNumbers, TransactionalWriter

BATCHES_TOPIC = "batches_topic"
DEFAULT_BATCHES_TOPIC = "windowpane-batches"
_log = logging.getLogger("windowpane.sinks")


def refuse_batches_topic(name: str, options: Mapping[str, str]) -> None:
    """ConfigError for an option that has an effect with exactly-once delivery only."""
    if BATCHES_TOPIC in {option.lower() for option in options}:
        raise ConfigError(
            "CONFLICTING_KEYS", f'`{BATCHES_TOPIC}` of sink `{name}` has an effect with delivery = "exactly_once" only',
            "add the delivery, or remove the option", key=f"sinks.{name}.options.{BATCHES_TOPIC}",
        )  # fmt: skip


class ExactlyOnceKafkaSink(Sink):
    """Messages as those of `KafkaSink`, and the number of their batch, in one transaction."""

    delivery = "exactly_once"
    wants_identity = True
    record_messages = re.compile(f"{Sink.record_messages.pattern}|MSG_SIZE_TOO_LARGE|Message size too large")

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._topic = options["topic"]
        known = {option.lower(): value for option, value in options.items()}
        self._numbers_topic = known.get(BATCHES_TOPIC, DEFAULT_BATCHES_TOPIC)
        self._settings = _settings(name, options)
        self._writers: dict[str, TransactionalWriter] = {}
        self._numbers: BatchNumbers | None = None

    @property
    def place(self) -> str:
        return self._topic

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        """ConfigError if Kafka's client is not installed."""
        client_module()

    def check(self, columns: Sequence[str]) -> None:
        """Find the brokers, the topic, and the topic of batch numbers, which is created if it is missing."""
        from confluent_kafka import KafkaException  # noqa: PLC0415  # an extra

        from windowpane.connectors.kafka_transactions import admin_client  # noqa: PLC0415

        try:
            self._batch_numbers()
            found = admin_client(self._settings).list_topics(self._topic, 30).topics[self._topic]
        except (KafkaException, TimeoutError) as failed:
            raise self._failed(failed) from failed
        if found.error is not None:
            raise SinkError(
                "SINK_TOPIC", f"sink `{self.name}`: there is no topic `{self._topic}`: {found.error.str()}",
                "create it, or correct the name", passing=False,
            )  # fmt: skip

    def write(self, batch: SinkBatch) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415  # an extra

        if batch.table is not None and not batch.table.num_rows:
            return
        try:
            self._write(batch)
        except BaseException as failed:
            self.close()
            if not isinstance(failed, KafkaException | TimeoutError):
                raise
            batch.check_lease()  # a process that another one has followed is fenced off
            raise self._failed(failed) from failed

    def read_back(self, expected: DataFrame, written: Written) -> ReadBack:
        """The committed messages of the checkpoint's present run."""
        from windowpane.connectors.kafka_reading import read_results  # noqa: PLC0415  # an extra

        return read_results(self._topic, self._settings, expected, written)

    def side_records(self, spark: SparkSession, written: Written) -> list[str]:
        from windowpane.connectors.kafka_reading import read_side_records  # noqa: PLC0415  # an extra

        return read_side_records(self._topic, self._settings, written)

    def count_rows(self, access: Access, *, runs: Sequence[str], transform: str, side: bool) -> dict[int, int]:
        from windowpane.connectors.kafka_reading import count_messages  # noqa: PLC0415  # an extra

        return count_messages(self._topic, self._settings, [Written(transform, run) for run in runs], side=side)

    def read_side(self, access: Access, *, runs: Sequence[str], transform: str) -> list[tuple[int, str]]:
        from windowpane.connectors.kafka_reading import side_messages  # noqa: PLC0415  # an extra

        return side_messages(self._topic, self._settings, [Written(transform, run) for run in runs])

    def close(self) -> None:
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()

    def _write(self, batch: SinkBatch) -> None:
        from windowpane.connectors.kafka_transactions import BatchNumber  # noqa: PLC0415  # an extra

        writer = self._writer(batch)
        number = BatchNumber(batch.batch_id, batch.final, batch.fence)
        if self._is_due(batch, writer.last):
            parts = tables(messages(batch), batch.rows)
            writer.write(number, map(_messages, parts), batch.check_lease)

    def _is_due(self, batch: SinkBatch, last: BatchNumber | None) -> bool:
        """Whether a batch has still to be written."""
        self._check_fence(batch, last)
        if last is None:
            return True
        if batch.batch_id == last.batch_id and last.final and not batch.final:
            _log.warning(
                "sink `%s`, batch %d: a graceful end was cut short after its results were committed to topic `%s`. "
                "They stay there, since messages cannot be taken back; those of the batch follow",
                self.name, batch.batch_id, self._topic,
            )  # fmt: skip
            return True
        return batch.batch_id > last.batch_id or (batch.final and not last.final)

    def _writer(self, batch: SinkBatch) -> TransactionalWriter:
        from windowpane.connectors.kafka_transactions import TransactionalWriter  # noqa: PLC0415  # an extra

        side = ".side" if batch.side_records else ""
        name = f"windowpane-{batch.run}-{batch.transform}{side}-{self.name}-{self._topic}"
        if name not in self._writers:
            numbers = self._batch_numbers()
            # Before the writer begins, which ends the transaction of another process.
            batch.check_lease()
            self._check_fence(batch, numbers.last(name, wait=False))
            self._writers[name] = TransactionalWriter(self._topic, name, numbers, self._settings)
        return self._writers[name]

    def _check_fence(self, batch: SinkBatch, last: BatchNumber | None) -> None:
        if last is not None and last.fence > batch.fence:
            raise lease_lost(f"of batch {batch.batch_id} for sink `{self.name}`")

    def _batch_numbers(self) -> BatchNumbers:
        from windowpane.connectors.kafka_transactions import BatchNumbers, NotCompactedError  # noqa: PLC0415  # an extra

        if self._numbers is None:
            numbers = BatchNumbers(self._numbers_topic, self._settings)
            try:
                numbers.ensure()
            except NotCompactedError as other:
                raise SinkError(
                    "SINK_TOPIC",
                    f"sink `{self.name}`: topic `{self._numbers_topic}` has cleanup.policy `{other}`, so that it would "
                    "lose the numbers of batches",
                    f"set cleanup.policy to compact, or name another topic as options.{BATCHES_TOPIC}", passing=False,
                ) from other  # fmt: skip
            self._numbers = numbers
        return self._numbers

    def _failed(self, failed: Exception) -> SinkError:
        return SinkError("SINK_WRITE", f"sink `{self.name}` (kafka): {gist(failed)}")


def _settings(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Of librdkafka; ConfigError for an option that would have no effect."""
    for option in options:
        if option.lower() not in ("topic", BATCHES_TOPIC) and not option.lower().startswith(PREFIX):
            raise ConfigError(
                "UNKNOWN_KEY", f"sink `{name}` has no option `{option}` with exactly-once delivery",
                f"valid: topic, {BATCHES_TOPIC}, and options of Kafka's client: {PREFIX}…",
                key=f"sinks.{name}.options.{option}",
            )  # fmt: skip
    try:
        return client_settings(options, "producer")
    except UntranslatableError as unknown:
        raise ConfigError(
            "BAD_VALUE", f"sink `{name}` with exactly-once delivery is written by librdkafka: {unknown}",
            'remove it, or write delivery = "at_least_once"', key=f"sinks.{name}.options.{unknown.option}",
        ) from unknown  # fmt: skip


def _messages(table: pa.Table) -> Iterator[tuple[Any, Any, list[tuple[str, bytes]]]]:
    keys = table.column("key").to_pylist() if "key" in table.column_names else [None] * table.num_rows
    for value, key, headers in zip(
        table.column("value").to_pylist(), keys, table.column("headers").to_pylist(), strict=True
    ):
        yield value, key, [(header["key"], header["value"]) for header in headers]
