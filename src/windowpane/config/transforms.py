"""`[transforms.NAME]` of pipeline.toml: a query, its event time and limits, and where rows go that reach no result."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from windowpane.config.durations import OptionalDuration, PositiveDuration
from windowpane.config.instants import OptionalInstant
from windowpane.config.settings import Settings, refusal
from windowpane.config.values import Label, Names, RateLimit, Text, distinct
from windowpane.outcomes import SIDE_KINDS, SideKind

METRICS_ONLY = "metrics_only"
REINJECT = "reinject"
DEFAULT_RATE_LIMIT = 100_000


class Route(Settings):
    """Where the rows of one side-output kind go."""

    sink: Text = Field(
        default=METRICS_ONLY, description='A sink\'s name, "metrics_only" (count, forward nothing) or "reinject".'
    )
    include_original: bool = Field(
        default=False, description="Include the original row in the record (original_event)."
    )
    rate_limit: RateLimit = Field(
        default=DEFAULT_RATE_LIMIT,
        description='Rows per second; rows above the limit are dropped and counted. "off": no limit.',
    )
    max_reinjections: int = Field(
        default=3, ge=1, description='How often one row may be reinjected with sink = "reinject".'
    )
    then: Text = Field(
        default=METRICS_ONLY,
        description='With sink = "reinject": where rows go that went round as often as allowed, a sink\'s name or '
        '"metrics_only".',
    )

    @model_validator(mode="after")
    def _then_follows_reinject(self) -> Self:
        if self.then != METRICS_ONLY and self.sink != REINJECT:
            hint = 'remove `then`, or set sink = "reinject"'
            raise refusal("BAD_VALUE", "`then` only applies to rows that are reinjected", hint)
        return self

    @property
    def last(self) -> str:
        """Where rows of this kind end: a sink's name, or `metrics_only`."""
        return self.then if self.sink == REINJECT else self.sink


class LateRoute(Route):
    """The route of late rows, for which `reinject` has to be asked for twice."""

    enable_reinject: bool = Field(default=False, description='Allows sink = "reinject" for late rows.')

    @model_validator(mode="after")
    def _reinject_is_enabled(self) -> Self:
        if self.sink == REINJECT and not self.enable_reinject:
            raise refusal(
                "REINJECT_DISABLED",
                "late rows are reinjected only if you enable it, because a late row that returns is even later",
                'add `enable_reinject = true` next to sink = "reinject", or name another sink',
            )
        return self


class SideOutput(Settings):
    """Routes of the rows that reach no result, one per kind."""

    late: LateRoute = Field(default_factory=LateRoute, description="Rows that arrived after their windows had closed.")
    error: Route = Field(default_factory=Route, description="Rows that could not be decoded or computed.")
    evicted: Route = Field(default_factory=Route, description="Rows whose group exceeds limits.max_groups.")
    duplicate: Route = Field(default_factory=Route, description="Rows whose dedupe key was seen before.")
    unmatched: Route = Field(default_factory=Route, description="Rows for which a join found no partner.")

    def routes(self) -> dict[SideKind, Route]:
        """All of them, by kind."""
        return {kind: getattr(self, kind) for kind in SIDE_KINDS}


class Dedupe(Settings):
    """Rows with a key that was seen within the horizon are duplicates."""

    key: Annotated[Names, AfterValidator(distinct)] = Field(description="The columns that identify a row.")
    within_us: PositiveDuration = Field(alias="within", description="How long a key is remembered, in event time.")


class Limits(Settings):
    """Bounds on what a transform keeps."""

    max_groups: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of groups per window. Rows of further groups are evicted. Unset: no limit.",
    )


class Transform(Settings):
    """One query and how its rows are treated."""

    sql: Text | None = Field(default=None, description="The query. Either this or sql_file.")
    sql_file: Text | None = Field(
        default=None, description="A file that contains the query, relative to pipeline.toml."
    )
    sinks: Annotated[Names, AfterValidator(distinct)] = Field(
        default=(), alias="sink", description="The sink for the results, or a list of sinks."
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
        description="How long a window accepts rows after the watermark has passed its end. Unset: 0.",
    )
    keep_closed_us: OptionalDuration = Field(
        default=None,
        alias="keep_closed",
        description="How long, in event time, closed windows are kept for `windowpane repair`. Unset: not at all.",
    )
    start_at_us: OptionalInstant = Field(
        default=None,
        alias="start_at",
        description="The transform has the windows that start at this instant or later, and skips all other rows. "
        "Unset: it begins with the first row that it reads.",
    )
    dedupe: Dedupe | None = Field(default=None, description="Removes duplicate rows.")
    limits: Limits = Field(default_factory=Limits, description="Limits on the state.")
    side_output: SideOutput = Field(
        default_factory=SideOutput, description="Routes for rows that do not reach a result."
    )

    share: bool = Field(
        default=True,
        description="Whether it may run in one job with other transforms that read the same streams. false: a job of "
        "its own.",
    )
    group: Label | None = Field(
        default=None,
        description="Runs in one job with the transforms of the same group, and with no others.",
    )

    _query: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _group_is_shared(self) -> Self:
        if self.group is not None and not self.share:
            hint = "remove one of them: `share = false` makes the transform a job of its own"
            raise refusal("BAD_VALUE", "`group` and `share = false` exclude each other", hint)
        return self

    @property
    def query(self) -> str:
        """The text of the query, from `sql` or read from `sql_file` when the pipeline was loaded."""
        return self._query or self.sql or ""

    def asking(self, query: str) -> Self:
        """This transform with the text of its query set."""
        self._query = query
        return self
