"""Which time a query runs on: mode, lag, lateness, late rule.

Settings that contradict each other or that would do nothing are refused here; none is ignored silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windowpane.errors import Span
from windowpane.plan.context import PlanContext
from windowpane.sql.query import BoundQuery
from windowpane.time import format_duration

TimeMode: TypeAlias = Literal["event_time", "processing_time"]
LateRule: TypeAlias = Literal["window", "row"]


@dataclass(frozen=True)
class Timing:
    """The time settings of a query, from its SQL, its transform and the options."""

    mode: TimeMode
    late_rule: LateRule
    ordered: bool
    lag_us: int = 0
    allowed_lateness_us: int = 0
    max_future_skew_us: int | None = None
    idle_timeout_us: int | None = None
    notes: tuple[str, ...] = ()
    behind_us: int | None = None
    """Of a query over the results of another: how far its watermark is behind that one's."""


def resolve_result_timing(context: PlanContext, below: Timing, inner: BoundQuery) -> Timing:
    """The times of a query over the results of the query `inner`, whose times are `below`.

    Its watermark follows that of the query below: no result that is still to come is late.
    """
    lateness_us = _allowed_lateness(context)
    rule, _ = _late_rule(context, lateness_us)
    lag_us = (context.bound.watermark.lag_us if context.bound.watermark else None) or 0
    behind_us = results_behind_us(below, inner)
    return Timing(
        below.mode,
        late_rule=rule,
        ordered=context.releases_in_order,
        allowed_lateness_us=lateness_us,
        behind_us=behind_us + lag_us,
    )


def results_behind_us(below: Timing, inner: BoundQuery) -> int:
    """How far results may be behind the watermark of their query."""
    window, join = inner.window, inner.relation.stream_join
    if window is None:
        return max(abs(us) for us in join.interval_us) if join is not None and join.interval_us else 0
    # Several micro-batches can have the same timestamp.
    same_clock_us = 1 if below.mode == "processing_time" and window.spec.triggered else 0
    return window.spec.results_behind_us(below.allowed_lateness_us) + same_clock_us


def check_times(context: PlanContext, timings: Sequence[Timing]) -> None:
    """The streams of a query share one watermark, however many of its queries read them."""
    if len({timing.lag_us for timing in timings}) > 1:
        lags = ", ".join(dict.fromkeys(format_duration(timing.lag_us) for timing in timings))
        raise context.error(
            "JOIN_WATERMARKS", f"the streams of one query have one watermark, and its queries ask for lags of {lags}",
            "write the same `WATERMARK (LAG …)` in each of them, or set `watermark_lag` of the transform",
        )  # fmt: skip
    if len(timings) > 1 and timings[0].mode == "processing_time":
        raise context.error(
            "NEEDS_EVENT_TIME", "a join or a UNION ALL with the results of a query needs event time",
            "set `options.eventtime.enabled = true` and declare the `eventtime` of the streams",
        )  # fmt: skip


def resolve_timing(context: PlanContext) -> Timing:
    """Mode, lag, lateness and late rule, or the PlanError that says which settings contradict each other."""
    if _resolve_mode(context) == "processing_time":
        if context.joins_intervals:
            raise context.error(
                "NEEDS_EVENT_TIME", "an interval join needs event time: in processing time, rows come when they come",
                "set `options.eventtime.enabled = true` and declare the `eventtime` of both streams",
            )  # fmt: skip
        _refuse_event_time_settings(context)
        rule: LateRule = "row" if context.releases_in_order else "window"
        return Timing("processing_time", rule, context.releases_in_order, notes=_unused(context))
    lateness_us = _allowed_lateness(context)
    rule, notes = _late_rule(context, lateness_us)
    options = context.options
    return Timing(
        "event_time",
        late_rule=rule,
        ordered=context.releases_in_order,
        lag_us=_lag(context),
        allowed_lateness_us=lateness_us,
        max_future_skew_us=options.max_future_skew_us,
        idle_timeout_us=options.idle_timeout_us,
        notes=notes,
    )


def _resolve_mode(context: PlanContext) -> TimeMode:
    window, enabled = context.bound.window, context.options.eventtime.enabled
    on, field = (window.on if window else None), context.transform.event_time_field
    if enabled is False and (on or field is not None):
        asking = f"`ON {on.text}`" if on else f'`event_time_field = "{field}"`'
        raise context.error(
            "EVENTTIME_DISABLED", f"{asking} asks for event time, but `options.eventtime.enabled` is false",
            "remove `enabled = false`, or what asks for event time",
            span=on.span if on else None, key="options.eventtime.enabled",
        )  # fmt: skip
    return "event_time" if enabled or on or field is not None else "processing_time"


def _watermark_span(context: PlanContext) -> Span | None:
    return context.bound.watermark.span if context.bound.watermark else None


def _refuse_event_time_settings(context: PlanContext) -> None:
    """In processing time no row is ever late, so these would do nothing."""
    transform, eventtime = context.transform, context.options.eventtime
    settings: dict[str, object] = {
        "WATERMARK": context.bound.watermark,
        context.own_key("watermark_lag"): transform.watermark_lag_us,
        context.own_key("allowed_lateness"): transform.allowed_lateness_us,
        "options.eventtime.late_tolerance": eventtime.late_tolerance_us or None,
        "options.eventtime.strict": eventtime.strict or None,
    }
    for key, value in settings.items():
        if value is not None:
            in_sql = key == "WATERMARK"
            raise context.error(
                "NEEDS_EVENT_TIME",
                f"`{key.rpartition('.')[2]}` does not apply: the query uses processing time",
                "set `options.eventtime.enabled = true` and declare the stream's `eventtime`, name the time column in "
                "the SQL (`WINDOW … ON ts`), or remove it",
                span=_watermark_span(context) if in_sql else None, key=None if in_sql else key,
            )  # fmt: skip


def _lag(context: PlanContext) -> int:
    in_sql = context.bound.watermark.lag_us if context.bound.watermark else None
    in_transform = context.transform.watermark_lag_us
    configured = context.options.eventtime.late_tolerance_us if in_transform is None else in_transform
    return configured if in_sql is None else in_sql


def _allowed_lateness(context: PlanContext) -> int:
    bound = context.bound
    in_sql = bound.watermark.allowed_lateness_us if bound.watermark else None
    lateness_us = context.transform.allowed_lateness_us if in_sql is None else in_sql
    if lateness_us is None or not (context.releases_in_order or context.joins_intervals):
        return lateness_us or 0
    what = f"the window {bound.window.spec.describe()}" if bound.window else "a query without a window"
    raise context.error(
        "LATENESS_NOT_ALLOWED", f"allowed lateness is not supported for {what}: its rows are released in time order",
        "raise the watermark's lag instead: `WATERMARK (LAG …)`, `watermark_lag` or `eventtime.late_tolerance`",
        span=_watermark_span(context) if in_sql is not None else None, key=context.own_key("allowed_lateness"),
    )  # fmt: skip


def _late_rule(context: PlanContext, lateness_us: int) -> tuple[LateRule, tuple[str, ...]]:
    options = context.options
    if context.releases_in_order or context.joins_intervals:
        ignored = "late_rule" in options.model_fields_set and options.late_rule == "window"
        note = '`late_rule = "window"` has no effect: rows released in time order are judged one by one'
        return "row", (note,) if ignored else ()
    if options.late_rule == "row" and lateness_us:
        in_sql = context.bound.watermark is not None and context.bound.watermark.allowed_lateness_us is not None
        raise context.error(
            "LATE_RULE_CONFLICT",
            '`late_rule = "row"` and allowed lateness cannot be combined: under that rule a row behind the watermark '
            "is late at once",
            'remove allowed lateness and raise the watermark\'s lag, or use `late_rule = "window"`',
            span=_watermark_span(context) if in_sql else None, key="options.late_rule",
        )  # fmt: skip
    return options.late_rule, ()


def _unused(context: PlanContext) -> tuple[str, ...]:
    """Notes about declarations that a processing-time query does not use. Other transforms may use them."""
    declared = [
        ref.name for ref in context.refs() if ref.name in context.streams and context.streams[ref.name].eventtime
    ]
    streams = [
        f"stream `{name}` declares eventtime, which is not used: `options.eventtime.enabled = true` turns it on"
        for name in dict.fromkeys(declared)
    ]
    set_here = context.options.model_fields_set
    fields = {"late_rule": "late_rule", "max_future_skew_us": "max_future_skew", "idle_timeout_us": "idle_timeout"}
    options = [f"option `{key}` has no effect in processing time" for field, key in fields.items() if field in set_here]
    return (*streams, *options)
