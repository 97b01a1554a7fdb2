"""Which time a query runs on: mode, the chain that resolves a row's event time, lag and lateness.

Planning-time validation of everything that has to do with time happens here; no setting is ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windowpane.config import Options, Stream, Transform
from windowpane.core.windows import Hopping, Session, Tumbling
from windowpane.errors import PlanError, Span
from windowpane.plan.describe import describe_window
from windowpane.sql.query import BoundQuery

TimeMode: TypeAlias = Literal["event_time", "processing_time"]
LateRule: TypeAlias = Literal["window", "row"]
Origin: TypeAlias = Literal["sql_override", "config_field", "stream_column", "metadata", "source", "processing_time"]


@dataclass(frozen=True)
class TimeStep:
    """One place to take a row's event time from. `type` is a name of the event-time registry."""

    origin: Origin
    text: str = ""
    """Spark SQL over the columns below; empty for processing time."""
    type: str = ""
    columns: tuple[str, ...] = ()
    on_failure: Literal["next", "error"] = "next"

    def describe(self) -> str:
        if self.origin == "processing_time":
            return "processing_time"
        strict = " or error" if self.on_failure == "error" else ""
        return f"{self.origin}({self.text}: {self.type}){strict}"


@dataclass(frozen=True)
class Timing:
    """The settings of time in force, wherever they came from."""

    mode: TimeMode
    late_rule: LateRule
    ordered: bool
    lag_us: int = 0
    allowed_lateness_us: int = 0
    max_future_skew_us: int | None = None
    idle_timeout_us: int | None = None
    notes: tuple[str, ...] = ()


def resolve_timing(bound: BoundQuery, streams: Mapping[str, Stream], options: Options, transform: Transform) -> Timing:
    """Mode, lag, lateness and late rule, or the PlanError that says which settings contradict each other."""
    if resolve_mode(bound, options, transform) == "processing_time":
        _refuse_event_time_settings(bound, options, transform)
        return Timing("processing_time", "row", releases_in_order(bound), notes=_unused(bound, streams, options))
    lateness_us = _allowed_lateness(bound, transform)
    rule, notes = _late_rule(bound, options, lateness_us)
    return Timing(
        "event_time", rule, releases_in_order(bound), _lag(bound, options, transform), lateness_us,
        options.max_future_skew_us, options.idle_timeout_us, notes,
    )  # fmt: skip


def resolve_mode(bound: BoundQuery, options: Options, transform: Transform) -> TimeMode:
    asked = _who_asks_for_event_time(bound, transform)
    if options.eventtime.enabled is False and asked:
        raise plan_error(
            bound, "EVENTTIME_DISABLED", f"{asked} asks for event time, but options `eventtime.enabled` is false",
            "remove `eventtime.enabled = false`, or what asks for event time", span_of_on(bound),
        )  # fmt: skip
    return "event_time" if options.eventtime.enabled or asked else "processing_time"


def releases_in_order(bound: BoundQuery) -> bool:
    """Sliding, count, state and plain rows are released by (ts, arrival); the other windows need no order."""
    return bound.window is None or not isinstance(bound.window.spec, Tumbling | Hopping | Session)


def plan_error(bound: BoundQuery, code: str, message: str, hint: str, span: Span | None = None) -> PlanError:
    """An error that shows its place in the query, when it has one."""
    return PlanError(code, message, hint, sql=bound.text, span=span)


def span_of_on(bound: BoundQuery) -> Span | None:
    return bound.window.on.span if bound.window and bound.window.on else None


def _who_asks_for_event_time(bound: BoundQuery, transform: Transform) -> str | None:
    if bound.window and bound.window.on:
        return f"`ON {bound.window.on.text}`"
    if transform.event_time_field is not None:
        return f'`event_time_field = "{transform.event_time_field}"`'
    return None


def _refuse_event_time_settings(bound: BoundQuery, options: Options, transform: Transform) -> None:
    """In processing time no row is ever late, so these would do nothing."""
    span = bound.watermark.span if bound.watermark else None
    settings: dict[str, object] = {
        "WATERMARK (…)": bound.watermark,
        "watermark_lag": transform.watermark_lag_us,
        "allowed_lateness": transform.allowed_lateness_us,
        "eventtime.late_tolerance": options.eventtime.late_tolerance_us or None,
        "eventtime.strict": options.eventtime.strict or None,
    }
    for name, value in settings.items():
        if value is not None:
            raise plan_error(
                bound, "NEEDS_EVENT_TIME",
                f"`{name}` has no meaning in processing time, and this query runs in processing time",
                "set options `eventtime.enabled = true` and declare the stream's `eventtime`, name the time column "
                "in the SQL (`WINDOW … ON ts`), or remove the setting", span,
            )  # fmt: skip


def _lag(bound: BoundQuery, options: Options, transform: Transform) -> int:
    in_sql = bound.watermark.lag_us if bound.watermark else None
    in_transform = transform.watermark_lag_us
    from_transform = options.eventtime.late_tolerance_us if in_transform is None else in_transform
    return from_transform if in_sql is None else in_sql


def _allowed_lateness(bound: BoundQuery, transform: Transform) -> int:
    in_sql = bound.watermark.allowed_lateness_us if bound.watermark else None
    lateness_us = in_sql if in_sql is not None else transform.allowed_lateness_us
    if lateness_us is None:
        return 0
    if releases_in_order(bound):
        what = describe_window(bound.window.spec) if bound.window else "a query without a window"
        raise plan_error(
            bound, "LATENESS_NOT_ALLOWED", f"allowed lateness does not go with {what}: its rows are released in order",
            "raise the watermark's lag instead: `WATERMARK (LAG …)`, `watermark_lag` or `eventtime.late_tolerance`",
            bound.watermark.span if bound.watermark and in_sql is not None else None,
        )  # fmt: skip
    return lateness_us


def _late_rule(bound: BoundQuery, options: Options, lateness_us: int) -> tuple[LateRule, tuple[str, ...]]:
    if releases_in_order(bound):
        explicit = "late_rule" in options.model_fields_set and options.late_rule == "window"
        note = '`late_rule = "window"` has no effect here: rows that are released in order are judged one by one'
        return "row", (note,) if explicit else ()
    if options.late_rule == "row" and lateness_us:
        raise plan_error(
            bound, "LATE_RULE_CONFLICT",
            "`late_rule = \"row\"` and allowed lateness exclude each other: a row behind the watermark is late at once",
            "remove allowed_lateness and raise the watermark's lag, or use `late_rule = \"window\"`",
            bound.watermark.span if bound.watermark else None,
        )  # fmt: skip
    return options.late_rule, ()


def _unused(bound: BoundQuery, streams: Mapping[str, Stream], options: Options) -> tuple[str, ...]:
    """Declarations that are there and have no part in a processing-time query: legal, but said."""
    declared = [ref.name for ref in bound.relation.streams if ref.name in streams and streams[ref.name].eventtime]
    notes = [
        f"stream `{name}` declares eventtime, which is not used: set options `eventtime.enabled = true` to use it"
        for name in dict.fromkeys(declared)
    ]
    named = [name for name in ("late_rule", "max_future_skew", "idle_timeout") if _is_set(options, name)]
    return (*notes, *(f"option `{name}` has no effect in processing time" for name in named))


def _is_set(options: Options, name: str) -> bool:
    return bool({name, f"{name}_us"} & options.model_fields_set)
