"""Kafka through Spark's connector: values decoded to columns, results as keyed messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windowpane.config import Stream
from windowpane.connectors import decoding, kafka_ranges
from windowpane.connectors.history import AnyReader
from windowpane.connectors.kafka_exactly_once import ExactlyOnceKafkaSink, refuse_batches_topic
from windowpane.connectors.kafka_messages import messages
from windowpane.connectors.sinks import Sink, SinkBatch, SinkSettings
from windowpane.core import columns as c
from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import ConfigError, SinkError, gist
from windowpane.formats import KAFKA, KAFKA_CONNECTOR
from windowpane.plan.scan_sources import several_topics
from windowpane.remote.kafka import client_settings
from windowpane.scan.message_columns import KEY, PARTITION, TOPIC, VALUE
from windowpane.scan.message_ranges import Fetching
from windowpane.sql import parse_schema, with_record_columns

_CLIENT = {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024)}
"""Records handed over at once, and bytes fetched of a partition: with the client's own 500 and 1 MiB, reading small
records takes about twice as long."""
_KEY_TEXT = "make_valid_utf8(CAST(key AS STRING)) AS key"


def load(reader: AnyReader, spark: SparkSession, name: str, stream: Stream) -> DataFrame:
    """The columns of Spark's Kafka source."""
    require_connector(spark, f"stream `{name}`", f"streams.{name}.format")
    return reader.options(**client_defaults(stream)).load()


def load_ranges(reader: AnyReader, spark: SparkSession, name: str) -> DataFrame | None:
    """The ranges of offsets that Spark's Kafka source plans; None if this Spark can only fetch their messages."""
    require_connector(spark, f"stream `{name}`", f"streams.{name}.format")
    if not kafka_ranges.install(spark):
        return None
    return kafka_ranges.as_ranges(reader.option(kafka_ranges.OPTION, "true").load())


def fetching(stream: Stream) -> Fetching:
    """How workers fetch the messages of a stream."""
    options = {name.lower(): value for name, value in stream.spark_options.items()}
    patience_ms = options.get("kafkaconsumer.polltimeoutms")
    settings = client_settings(stream.spark_options, "consumer")
    return Fetching(
        tuple(sorted(settings.items())),
        fails_on_loss=fails_on_loss(stream),
        **({"patience_s": int(patience_ms) / 1000} if patience_ms else {}),
    )


def fails_on_loss(stream: Stream) -> bool:
    """Whether messages that are gone end the pipeline: Spark's option `failOnDataLoss`."""
    options = {name.lower(): value for name, value in stream.spark_options.items()}
    return options.get("failondataloss", "true").lower() != "false"


def client_defaults(stream: Stream) -> dict[str, str]:
    """Settings of the client for large reads, without those that the user sets."""
    given = {option.lower() for option in stream.spark_options}
    return {option: value for option, value in _CLIENT.items() if option not in given}


def require_connector(spark: SparkSession, who: str, key: str) -> None:
    """ConfigError with the coordinates to set if Spark has no Kafka connector."""
    probe = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "none"}
    try:
        spark.read.format(KAFKA).options(**probe).load()
    except AnalysisException as missing:
        raise ConfigError(
            "KAFKA_CONNECTOR_MISSING", f"{who} needs Spark's Kafka connector, which this session does not have",
            f'add to [spark]: packages = ["{KAFKA_CONNECTOR}"], or its jar files as jars = [...]', key=key,
        ) from missing  # fmt: skip


def source_partition(name: str, stream: Stream) -> Column:
    """Of each record, the partition whose watermark it moves, with the topic if there are several."""
    number = F.col("partition").cast("string")
    if several_topics(stream):
        number = F.concat(F.col("topic"), F.lit("-"), number)
    return F.concat(F.lit(f"{name}/"), number)


def decode(frame: DataFrame, stream: Stream) -> DataFrame:
    """The columns of a decoded value, and the record's where the value has none of that name."""
    declared = parse_schema(stream.declared or "")
    own = with_record_columns(declared, stream.source_format.record_columns)[len(declared) :]
    beside = [_KEY_TEXT if column.name == "key" else column.name for column in own]
    beside += [c.SOURCE_PARTITION, SOURCE_TIME]
    if stream.key_codec is not None:
        return decoding.decode_with_key(frame, stream, "value", "key", beside)
    return decoding.decode(frame, stream, "value", beside)


def raw(frame: DataFrame, stream: Stream, own: Sequence[str]) -> DataFrame:
    """The undecoded value of each record, its partition, and the columns `own`."""
    place = [f"partition AS {PARTITION}", *([f"topic AS {TOPIC}"] if several_topics(stream) else [])]
    columns = [_KEY_TEXT if name == "key" else name for name in own]
    columns += [SOURCE_TIME] if SOURCE_TIME in frame.columns else []
    columns += [f"key AS {KEY}"] if stream.key_codec is not None else []
    return frame.selectExpr(f"value AS {VALUE}", *place, *columns)


class KafkaSink(Sink):
    """Messages with JSON values, at least once.

    The key of a result is its window and group, so that a compacted topic keeps the last emission. Headers identify
    the emission, for consumers that drop duplicates.
    """

    wants_identity = True

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._options = options

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> Sink:
        if settings.delivery == "exactly_once":
            return ExactlyOnceKafkaSink(name, settings.options)
        refuse_batches_topic(name, settings.options)
        return cls(name, settings.options)

    @property
    def place(self) -> str:
        return self._options["topic"]

    def open(self, spark: SparkSession, *, identified: bool) -> None:
        require_connector(spark, f"sink `{self.name}`", f"sinks.{self.name}.format")

    def write(self, batch: SinkBatch) -> None:
        try:
            messages(batch).write.format(KAFKA).mode("append").options(**self._options).save()
        except Exception as failed:
            raise SinkError("SINK_WRITE", f"sink `{self.name}` (kafka): {gist(failed)}") from failed
