"""Streams, tables, sinks, options and Spark of pipeline.toml as typed, frozen values.

Every field's description is what editors and docs show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from windowpane.config.durations import (
    Duration,
    DurationOrOff,
    PositiveDuration,
    PositiveDurationOrOff,
    Trigger,
    TriggerSetting,
)
from windowpane.config.settings import Settings, refusal
from windowpane.config.values import Label, OptionMap, Place, Text
from windowpane.formats import (
    CODECS,
    SINKS,
    SOURCES,
    CodecFormat,
    SinkFormat,
    SourceFormat,
    key_codecs,
    sink_format,
    source_format,
)
from windowpane.remote.objects import SCHEMES, scheme_of

DEFAULT_MAX_FUTURE_SKEW_US = 300_000_000
DEFAULT_MAX_ROWS_PER_BATCH = 1_000_000


class StreamEventtime(Settings):
    """Where a stream's rows carry their event time."""

    column: Text = Field(description="The column that holds the event time.")
    type: Text = Field(
        default="timestamp",
        description="How the column is read: unixtimestamp_s, unixtimestamp_ms, unixtimestamp_us, iso8601, timestamp, "
        "or a registered type.",
    )
    strict: bool | None = Field(
        default=None,
        description="true: a row without a readable event time becomes an error row. false: it falls back to the "
        "source's timestamp. Unset: as options.eventtime.strict.",
    )
    folders: Text | None = Field(
        default=None,
        description="A column that folders name (dt=2026-01-31): all rows below have an event time of that day in UTC. "
        "A backfill reads only the folders of its range.",
    )


def _known_spelling(name: str) -> str:
    known = SOURCES.find(name)
    return known.name if known else name


SourceName: TypeAlias = Annotated[Text, AfterValidator(_known_spelling)]
"""The name of a source format; Spark takes it in any case."""


class Source(Settings):
    """What streams and tables share: anything that Spark can read."""

    format: SourceName | None = Field(
        default=None, description=f"{', '.join(SOURCES.names)}, or the name of any other Spark source."
    )
    path: Text | None = Field(default=None, description="Folder or file to read, relative to pipeline.toml.")
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        description='Columns and types as Spark DDL: "auction BIGINT, price BIGINT, ts STRING".',
    )
    options: OptionMap = Field(default_factory=dict, description="Passed to the Spark source.")

    @property
    def source_format(self) -> SourceFormat:
        """What windowpane knows of the format."""
        return source_format(self.format)

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them."""
        return spark_texts(self.options)

    @property
    def decoding_options(self) -> dict[str, str]:
        """Those of `options` that say how rows are decoded, not which are read."""
        return self.source_format.decoding_options(self.spark_options)

    def lacks_folder(self, path: str) -> bool:
        """Whether `path`, resolved, is a local one that does not exist and shall not be created."""
        elsewhere = ":" in path or any(char in path for char in "*?[{")
        return not (elsewhere or Path(path).exists())


KEY_PREFIX = "key."
"""How options of the codec of keys begin."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The default of `max_record_bytes`."""


def is_of_key(option: str) -> bool:
    """Whether an option is about the codec of keys."""
    return option.lower().startswith(KEY_PREFIX)


class Stream(Source):
    """A source of rows without end."""

    eventtime: StreamEventtime | None = Field(default=None, description="Which column holds the event time.")
    value_format: Text | None = Field(
        default=None, description=f"How the values of messages are decoded: {', '.join(CODECS.names)}. Unset: json."
    )
    key_format: Text | None = Field(
        default=None,
        description=f"How the keys of messages are decoded: {', '.join(key_codecs())}. Unset: the key is text, in the "
        "column `key`.",
    )
    key_schema: Text | None = Field(
        default=None,
        description='Columns of the key, as Spark DDL: "customer BIGINT". They stand behind those of the value.',
    )
    create: bool = Field(
        default=False,
        description="true: create the folder `path` where it does not exist, and wait for files. false: a missing "
        "folder is an error.",
    )
    scan: Literal["auto", "columnar", "spark"] = Field(
        default="auto",
        description="Who reads parquet, Arrow, JSON, CSV and text files, tables and Kafka messages. columnar: workers, "
        "column by column, several times faster; an error if the query does not allow it. spark: Spark's reader. auto: "
        "workers if possible.",
    )
    max_record_bytes: int = Field(
        default=MAX_RECORD_BYTES,
        gt=0,
        description="How long a line of a JSON file or the value of a message may be. A longer one is an error row "
        "(decode_error).",
    )

    split_bytes: int | None = Field(
        default=None,
        ge=1024 * 1024,
        description="Parquet, JSON, CSV and text files larger than this are divided among tasks of the columnar scan. "
        "Unset: one task reads a file. Spark's reader divides files by spark.sql.files.maxPartitionBytes.",
    )

    @property
    def codec(self) -> CodecFormat | None:
        """How values or lines are decoded; None if nothing is to be decoded."""
        return CODECS.find(self.value_format or self.source_format.codec) if self.schema_ else None

    @property
    def key_codec(self) -> CodecFormat | None:
        """How keys are decoded; None if they are not."""
        return CODECS.find(self.key_format) if self.key_schema and self.schema_ else None

    @property
    def key_options(self) -> dict[str, str]:
        """Options of the codec of keys, without their prefix."""
        given = self.source_format.decoding_options(self.spark_options)
        return {name[len(KEY_PREFIX) :]: value for name, value in given.items() if is_of_key(name)}

    @property
    def decoding_options(self) -> dict[str, str]:
        """Those of `options` that say how values or lines are decoded."""
        found = super().decoding_options
        if not self.source_format.is_messages:
            return found
        return {name: value for name, value in found.items() if not is_of_key(name)}

    @property
    def declared(self) -> str | None:
        """The columns of values, lines or rows, and behind them those of keys, as DDL."""
        return f"{self.schema_}, {self.key_schema}" if self.schema_ and self.key_codec else self.schema_

    def lacks_folder(self, path: str) -> bool:
        return not self.create and super().lacks_folder(path)


class Table(Source):
    """A static table to join streams with."""

    refresh_us: PositiveDuration | None = Field(
        default=None,
        alias="refresh",
        description="How often the table is read again while the pipeline runs. Unset: only when it starts.",
    )


class UserFunctionSettings(Settings):
    """A Python function or aggregate that queries can call."""

    module: Text = Field(
        description="The module or .py file that has the function: beside pipeline.toml, or installed."
    )
    function: Text | None = Field(default=None, description="Its name in the module. Unset: its name in SQL.")
    kind: Literal["scalar", "arrow", "aggregate"] = Field(
        default="scalar",
        description="scalar: called with the values of a row. arrow: with Arrow columns. aggregate: a class that "
        "extends windowpane.Aggregate.",
    )
    returns: Text | None = Field(
        default=None, description='Spark\'s name of its type: "DOUBLE". Required, but not for aggregates.'
    )


class EventtimeOptions(Settings):
    """Event time for the whole pipeline."""

    synonyms: ClassVar[dict[str, str]] = {"lateTolerance": "late_tolerance"}

    enabled: bool | None = Field(
        default=None,
        description="true: windows use event time; it is an error if no stream declares one. false: processing time. "
        "Unset: event time if the query has ON or the transform has event_time_field, otherwise processing time.",
    )
    late_tolerance_us: Duration = Field(
        default=0, alias="late_tolerance", description="How far the watermark stays behind the largest event time seen."
    )
    strict: bool = Field(
        default=False,
        description="Rows with an unreadable event time become error rows instead of falling back.",
    )
    types: dict[Label, Text] = Field(
        default_factory=dict,
        description="User-defined event-time types by name: Spark SQL over {column} that returns BIGINT microseconds "
        "or TIMESTAMP, and NULL for unreadable values.",
    )


class MetricsOptions(Settings):
    """Where the pipeline's metrics are served, for Prometheus."""

    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of the Prometheus metrics, at /metrics. 0: a free port. Unset: no metrics.",
    )
    host: Text = Field(default="127.0.0.1", description='The address to listen on; "0.0.0.0" for all interfaces.')


class Options(Settings):
    """How the pipeline runs."""

    removed: ClassVar[dict[str, str]] = {
        "batch_target": "the size of micro-batches is fixed: set maxBytesPerTrigger or maxFilesPerTrigger in the "
        "options of a stream of files, or options.max_rows_per_batch for Kafka",
    }

    eventtime: EventtimeOptions = Field(default_factory=EventtimeOptions, description="Event time of the pipeline.")
    late_rule: Literal["window", "row"] = Field(
        default="window",
        description="window: a row is late if all its windows are closed. row: if it is not after the watermark.",
    )
    max_future_skew_us: DurationOrOff = Field(
        default=DEFAULT_MAX_FUTURE_SKEW_US,
        alias="max_future_skew",
        description='Rows further ahead of processing time than this do not move the watermark. "off": all rows do.',
    )
    idle_timeout_us: PositiveDurationOrOff = Field(
        default=None,
        alias="idle_timeout",
        description='A source partition without rows for this long no longer holds the watermark back. "off": it '
        "always does.",
    )
    checkpoint: Place | None = Field(
        default=None,
        description="Folder for offsets, state and ledger, relative to pipeline.toml, or an address of an object store "
        "or another file system that Spark's Hadoop knows: s3a://bucket/state. A restart goes on from it.",
    )
    umask: Text = Field(
        default="077",
        pattern="^0?[0-7]{3}$",
        description="Who may read the checkpoint folder, which holds rows: permissions that are taken away. "
        '"077": all but the owner\'s. "027": the group may read. For folders only, not for addresses of stores.',
    )
    trigger: TriggerSetting = Field(
        default=Trigger(),
        description='When micro-batches start: "as_fast_as_possible", "available_now" (all there is, then end), or an '
        'interval such as "10s".',
    )
    shards: int | None = Field(
        default=None, ge=1, description="Partitions of each stateful stage. Unset: one per core."
    )
    extra_shuffles: bool | None = Field(
        default=None,
        description="Whether `dedupe` and `max_groups` get shuffles of their own where they cannot run beside the "
        "groups. Unset: if there are several shards. A checkpoint keeps what it was made with.",
    )
    max_rows_per_batch: int = Field(
        default=DEFAULT_MAX_ROWS_PER_BATCH,
        ge=1,
        description="Maximum number of records per Kafka stream and micro-batch. A limit in the options of a stream "
        "takes precedence.",
    )
    state_cache_bytes: int = Field(
        default=4 * 1024**3,
        ge=0,
        description="How much state each executor caches on its local disk, in bytes. 0: no cache.",
    )
    max_side_backlog: int = Field(
        default=1_000_000,
        ge=1,
        description="Maximum number of undelivered side rows per sink of a transform. Further rows are dropped and "
        "counted.",
    )
    max_result_backlog_bytes: int = Field(
        default=1024**3,
        ge=0,
        description="How many bytes of results may wait in the checkpoint for a sink that is away, per sink of a "
        "transform. The pipeline stops when there is no room for more. 0: it stops as soon as a sink keeps failing.",
    )
    metrics: MetricsOptions = Field(default_factory=MetricsOptions, description="Metrics for Prometheus.")

    @field_validator("umask", mode="after")
    @classmethod
    def _has_an_effect(cls, umask: str, others: ValidationInfo) -> str:
        scheme = scheme_of(others.data.get("checkpoint") or "")
        if scheme:
            hint = (
                "remove it; the policies of the store decide who may read the checkpoint"
                if scheme in SCHEMES
                else "remove it, and create the folder with the mode that it is to have: hdfs dfs -chmod 700"
            )
            raise refusal("CONFLICTING_KEYS", f"it has an effect on a folder only, not on {scheme}://", hint)
        return umask


class Retry(Settings):
    """How a sink that fails is tried again, each time after a pause twice as long."""

    attempts: int = Field(
        default=10,
        ge=1,
        description="Number of attempts before the pipeline stops. A sink whose results can wait in the checkpoint "
        "counts as away after 3 seconds at the latest.",
    )
    pause_us: PositiveDuration = Field(
        default=500_000,
        alias="pause",
        description="Pause before the second attempt; each further pause is twice as long.",
    )
    max_pause_us: PositiveDuration = Field(default=10_000_000, alias="max_pause", description="The longest pause.")

    @property
    def pauses(self) -> tuple[float, ...]:
        """Seconds before each try but the first."""
        doubled = [min(self.pause_us << min(number, 40), self.max_pause_us) for number in range(self.attempts - 1)]
        return tuple(pause / 1_000_000 for pause in doubled)


def _known_sink(name: str) -> str:
    known = SINKS.find(name)
    return known.name if known else name


SinkName: TypeAlias = Annotated[Text, AfterValidator(_known_sink)]


class Sink(Settings):
    """Where rows are written."""

    format: SinkName = Field(description=f"{', '.join(SINKS.names)}, or the name of any other Spark sink.")
    path: Text | None = Field(default=None, description="Folder to write to, relative to pipeline.toml.")
    mode: Literal["append", "update"] | None = Field(
        default=None,
        description="append: every emission is a new row. update: an emission replaces the previous one of its window "
        "and group; for postgres, delta, iceberg and duckdb. Unset: update there if rows are grouped, "
        "otherwise append.",
    )
    delivery: Literal["exactly_once", "at_least_once"] | None = Field(
        default=None,
        description="What happens to a batch that is written again after a crash; only for kafka, where unset means "
        "at_least_once. Other sinks have one guarantee each.",
    )
    retry: Retry = Field(default_factory=Retry, description="How failed writes are retried.")
    options: OptionMap = Field(default_factory=dict, description="Passed to the sink.")

    @property
    def sink_format(self) -> SinkFormat:
        """What windowpane knows of the format."""
        return sink_format(self.format)

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them."""
        return spark_texts(self.options)


def spark_texts(options: dict[str, Any]) -> dict[str, str]:
    """Option values as Spark reads them: true and false in lower case, the rest as written."""
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in options.items()}
