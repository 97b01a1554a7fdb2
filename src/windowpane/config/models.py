"""The tables of pipeline.toml as typed, frozen values. Every field's description is what editors and docs show."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from windowpane.config.settings import Settings, refusal
from windowpane.config.values import (
    Duration,
    DurationOrOff,
    Names,
    OptionalDuration,
    OptionMap,
    PositiveDuration,
    PositiveDurationOrOff,
    RateLimit,
    Texts,
    Trigger,
    TriggerSetting,
)

SIDE_KINDS = ("late", "error", "evicted", "duplicate")
METRICS_ONLY = "metrics_only"
REINJECT = "reinject"
DEFAULT_RATE_LIMIT = 100_000
DEFAULT_MAX_FUTURE_SKEW_US = 300_000_000

SideKind: TypeAlias = Literal["late", "error", "evicted", "duplicate"]


def _some_text(value: str) -> str:
    if not value.strip():
        raise refusal("BAD_VALUE", "this text is empty", "give it a value, or leave the key out")
    return value


Text: TypeAlias = Annotated[str, AfterValidator(_some_text), Field(min_length=1)]


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise refusal("BAD_VALUE", "this list is empty", "name at least one")
    if len(set(values)) < len(values):
        raise refusal("BAD_VALUE", "this list names something twice", "keep each name once")
    return values


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
        description="true: a row without a readable event time is an error row; false: it falls back to the source's "
        "own timestamp. Unset: as options.eventtime.strict says.",
    )


class Source(Settings):
    """What streams and tables share: anything that Spark can read."""

    format: Text | None = Field(default=None, description="Any Spark source: json, csv, parquet, kafka, rate, delta, …")
    path: Text | None = Field(default=None, description="Folder or file to read, relative to pipeline.toml.")
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        description='Columns and types as Spark DDL: "auction BIGINT, price BIGINT, ts STRING".',
    )
    options: OptionMap = Field(default_factory=dict, description="Passed to the Spark source as they are.")

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them."""
        return spark_texts(self.options)


class Stream(Source):
    """A source of rows without end."""

    eventtime: StreamEventtime | None = Field(default=None, description="Where the rows carry their event time.")


class Table(Source):
    """A static table to join streams with."""


class EventtimeOptions(Settings):
    """Event time for the whole pipeline."""

    synonyms: ClassVar[dict[str, str]] = {"lateTolerance": "late_tolerance"}

    enabled: bool | None = Field(
        default=None,
        description="true: windows go by event time, and it is an error when no stream declares one. false: by "
        "processing time. Unset: by event time where the query or a stream declares one.",
    )
    late_tolerance_us: Duration = Field(
        default=0, alias="late_tolerance", description="How far the watermark stays behind the largest event time seen."
    )
    strict: bool = Field(
        default=False,
        description="A row whose declared event time cannot be read is an error row instead of falling back.",
    )


class Options(Settings):
    """How the pipeline runs."""

    eventtime: EventtimeOptions = Field(default_factory=EventtimeOptions, description="Event time of the pipeline.")
    late_rule: Literal["window", "row"] = Field(
        default="window",
        description="window: a row is late when all its windows are closed. row: when it is behind the watermark.",
    )
    max_future_skew_us: DurationOrOff = Field(
        default=DEFAULT_MAX_FUTURE_SKEW_US,
        alias="max_future_skew",
        description='Rows further ahead of processing time than this do not move the watermark. "off": all rows do.',
    )
    idle_timeout_us: PositiveDurationOrOff = Field(
        default=None,
        alias="idle_timeout",
        description='A shard without rows for this long no longer holds the watermark back. "off": it always does.',
    )
    checkpoint: Text | None = Field(
        default=None,
        description="Folder for offsets, state and ledger, relative to pipeline.toml. A restart goes on from it.",
    )
    trigger: TriggerSetting = Field(
        default=Trigger(),
        description='When micro-batches start: "as_fast_as_possible", "available_now" (all there is, then end), or an '
        'interval such as "10s".',
    )
    shards: int | None = Field(default=None, ge=1, description="Partitions of the stateful stage. Unset: one per core.")
    max_rows_per_batch: int | None = Field(
        default=None, ge=1, description="The most rows a micro-batch takes in. Unset: grows with the backlog."
    )


class Route(Settings):
    """Where the rows of one side-output kind go."""

    sink: Text = Field(
        default=METRICS_ONLY, description='A sink\'s name, "metrics_only" (count, forward nothing) or "reinject".'
    )
    include_original: bool = Field(
        default=False, description="Put the row as it was read into the record (original_event)."
    )
    rate_limit: RateLimit = Field(
        default=DEFAULT_RATE_LIMIT,
        description='Rows per second; what is above is dropped and counted. "off": no limit.',
    )
    max_reinjections: int = Field(default=3, ge=1, description='How often one row may go round with sink = "reinject".')


class LateRoute(Route):
    """The route of late rows, for which `reinject` has to be asked for twice."""

    enable_reinject: bool = Field(default=False, description='Allows sink = "reinject" for late rows.')

    @model_validator(mode="after")
    def _reinject_is_enabled(self) -> Self:
        if self.sink == REINJECT and not self.enable_reinject:
            raise refusal(
                "REINJECT_DISABLED",
                "late rows are not reinjected unless that is enabled, since a late row that comes back is later still",
                'add `enable_reinject = true` beside sink = "reinject", or name another sink',
            )
        return self


class SideOutput(Settings):
    """Routes of the rows that reach no result, one per kind."""

    late: LateRoute = Field(default_factory=LateRoute, description="Rows that came after their windows had closed.")
    error: Route = Field(default_factory=Route, description="Rows that could not be decoded or computed.")
    evicted: Route = Field(default_factory=Route, description="Rows of groups beyond limits.max_groups.")
    duplicate: Route = Field(default_factory=Route, description="Rows whose dedupe key was seen before.")

    def routes(self) -> dict[SideKind, Route]:
        """All four, by kind."""
        return {"late": self.late, "error": self.error, "evicted": self.evicted, "duplicate": self.duplicate}


class Dedupe(Settings):
    """Rows with a key that was seen within the horizon are duplicates."""

    key: Annotated[Names, AfterValidator(_distinct)] = Field(description="The columns that identify a row.")
    within_us: PositiveDuration = Field(alias="within", description="How long, in event time, a key is remembered.")


class Limits(Settings):
    """Bounds on what a transform keeps."""

    max_groups: int | None = Field(
        default=None,
        ge=1,
        description="The most groups per window. Rows of further groups are evicted. Unset: no bound.",
    )


class Transform(Settings):
    """One query and how its rows are treated."""

    sql: Text | None = Field(default=None, description="The query. Either this or sql_file.")
    sql_file: Text | None = Field(default=None, description="A file with the query, relative to pipeline.toml.")
    sinks: Annotated[Names, AfterValidator(_distinct)] = Field(
        default=(), alias="sink", description="The sink that gets the results, or a list of sinks."
    )
    event_time_field: Text | None = Field(
        default=None,
        description="The column that holds the event time, where the SQL has no ON; read as the stream's type says.",
    )
    watermark_lag_us: OptionalDuration = Field(
        default=None,
        alias="watermark_lag",
        description="Where the SQL has no WATERMARK. Unset: options.eventtime.late_tolerance.",
    )
    allowed_lateness_us: OptionalDuration = Field(
        default=None,
        alias="allowed_lateness",
        description="How long after its end a window still takes rows. Unset: 0.",
    )
    dedupe: Dedupe | None = Field(default=None, description="Removes rows that come twice.")
    limits: Limits = Field(default_factory=Limits, description="Bounds on what is kept.")
    side_output: SideOutput = Field(default_factory=SideOutput, description="Where rows go that reach no result.")

    _query: str | None = PrivateAttr(default=None)

    @property
    def query(self) -> str:
        """The text of the query, from `sql` or read from `sql_file` when the pipeline was loaded."""
        return self._query or self.sql or ""

    def asking(self, query: str) -> Self:
        """This transform with the text of its query set."""
        self._query = query
        return self


class Sink(Settings):
    """Where rows are written."""

    format: Text = Field(
        description="console, json, csv, parquet, kafka, postgres, memory, or any other Spark sink by its name."
    )
    path: Text | None = Field(default=None, description="Folder to write to, relative to pipeline.toml.")
    mode: Literal["append", "update"] = Field(
        default="append",
        description="append: each emission is a row of its own. update: it replaces the earlier one of its window and "
        "group.",
    )
    options: OptionMap = Field(default_factory=dict, description="Passed to the sink as they are.")

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them."""
        return spark_texts(self.options)


class SparkSettings(Settings):
    """The Spark session."""

    master: Text | None = Field(
        default=None, description='Spark\'s master: "local[*]", "spark://host:7077", … Unset: local[*].'
    )
    app_name: Text = Field(default="windowpane", description="The name Spark shows.")
    config: OptionMap = Field(default_factory=dict, description="Spark configuration by its own names.")
    packages: Texts = Field(default=(), description="Maven coordinates to fetch: group:artifact:version.")
    jars: Texts = Field(default=(), description="Jar files to load, relative to pipeline.toml.")

    @property
    def spark_config(self) -> dict[str, str]:
        """`config` as Spark takes it."""
        return spark_texts(self.config)


def spark_texts(options: dict[str, Any]) -> dict[str, str]:
    """Option values as Spark reads them: true and false in lower case, the rest as written."""
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in options.items()}
