"""The chain that resolves a row's event time: SQL, then configuration, then source metadata, then processing time.

Checks what seed-style declarations can get wrong: no declaration, a column that is not there, an unknown type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from windowpane.config import Options, Stream, Transform
from windowpane.errors import nearest
from windowpane.plan.columns import find_column, quote
from windowpane.plan.eventtime import EventtimeTypes
from windowpane.plan.timing import TimeStep, plan_error, span_of_on
from windowpane.sql.query import BoundQuery, Column, StreamRef

METADATA_COLUMNS = ("received_at", "@timestamp")
STAMPING_FORMATS = ("kafka", "rate")
"""Sources that stamp each row themselves."""
SOURCE_TIME = "_source_ts"
"""The column in which a source of STAMPING_FORMATS hands over its stamp."""

_TYPE_OF_COLUMN = {"TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "timestamp", "DATE": "timestamp", "STRING": "iso8601"}
_PROCESSING_TIME = TimeStep("processing_time")


@dataclass(frozen=True)
class TimeChains:
    """`top` is resolved over the columns of FROM; otherwise each stream has its own chain, over its own columns."""

    top: tuple[TimeStep, ...] = ()
    per_stream: tuple[tuple[TimeStep, ...], ...] = ()


PROCESSING_TIME = TimeChains(top=(_PROCESSING_TIME,))


@dataclass(frozen=True)
class ChainContext:
    """What the chain is resolved from."""

    bound: BoundQuery
    streams: Mapping[str, Stream]
    options: Options
    transform: Transform
    types: EventtimeTypes

    def refs(self) -> Sequence[StreamRef]:
        """The streams in FROM order, one per branch of a union."""
        relation = self.bound.relation
        return [branch.stream for branch in relation.branches] or list(relation.streams)


def resolve_chains(context: ChainContext) -> TimeChains:
    """The chains of an event-time query."""
    window = context.bound.window
    if window and window.on:
        return TimeChains(top=(_sql_step(context),))
    if context.transform.event_time_field is not None:
        return _field_chains(context, context.transform.event_time_field)
    return TimeChains(per_stream=tuple(_declared_chain(context, ref) for ref in context.refs()))


def _sql_step(context: ChainContext) -> TimeStep:
    """`ON` is authoritative: no fallback. A bare column that a stream declares is parsed as declared."""
    window = context.bound.window
    assert window is not None and window.on is not None
    declared = _declared_type(context, window.on.text)
    known = declared or _TYPE_OF_COLUMN.get((window.on.type or "TIMESTAMP").upper())
    if known is None:
        raise plan_error(
            context.bound, "ON_NOT_A_TIMESTAMP", f"`ON {window.on.text}` is {window.on.type}, not a timestamp",
            f"convert it (`ON timestamp_millis({window.on.text})`), or declare it as the stream's eventtime with one "
            f"of the types {', '.join(context.types.list())}", span_of_on(context.bound),
        )  # fmt: skip
    return TimeStep("sql_override", window.on.text, known, window.on.columns, "error")


def _declared_type(context: ChainContext, text: str) -> str | None:
    """The declared type of column `text`, if a stream in FROM declares just that column."""
    for ref in context.refs():
        declared = context.streams[ref.name].eventtime if ref.name in context.streams else None
        if declared and quote(declared.column).lower() == text.lower():
            return context.types.resolve(declared.type).name
    return None


def _field_chains(context: ChainContext, field: str) -> TimeChains:
    """`event_time_field` names a column of a stream; with a union, of the union, else of each of its streams."""
    relation = context.bound.relation
    column = find_column(relation.columns, field) if relation.branches else None
    if column:
        step = _config_step(context, "config_field", column, _declared_type(context, quote(column.name)), strict=None)
        return TimeChains(top=_with_fallbacks(step, relation.columns, None))
    return TimeChains(per_stream=tuple(_field_chain(context, ref, field) for ref in context.refs()))


def _field_chain(context: ChainContext, ref: StreamRef, field: str) -> tuple[TimeStep, ...]:
    column = _column_of(context, ref, field, "EVENT_TIME_FIELD_NOT_FOUND", f"`event_time_field` `{field}`")
    step = _config_step(context, "config_field", column, _declared_type(context, quote(column.name)), strict=None)
    return _with_fallbacks(step, ref.columns, _format_of(context, ref))


def _declared_chain(context: ChainContext, ref: StreamRef) -> tuple[TimeStep, ...]:
    stream = context.streams.get(ref.name)
    if stream is None or stream.eventtime is None:
        raise plan_error(
            context.bound, "EVENTTIME_NOT_DECLARED",
            f"`eventtime.enabled` is true, but stream `{ref.name}` declares no event time",
            f'add `eventtime = {{ column = "…", type = "…" }}` to [streams.{ref.name}] (types: '
            f"{', '.join(context.types.list())}), `event_time_field` to the transform, or "
            "`WINDOW … ON <column>` to the SQL",
        )  # fmt: skip
    declared = stream.eventtime
    what = f"`eventtime.column` `{declared.column}`"
    column = _column_of(context, ref, declared.column, "EVENTTIME_COLUMN_NOT_FOUND", what)
    known = context.types.resolve(declared.type).name
    step = _config_step(context, "stream_column", column, known, strict=declared.strict)
    return _with_fallbacks(step, ref.columns, stream.format)


def _column_of(context: ChainContext, ref: StreamRef, name: str, code: str, what: str) -> Column:
    """The column in the stream's schema; a stream of unknown schema is taken at its word."""
    if not ref.columns:
        return Column(name, "")
    column = find_column(ref.columns, name)
    if column is None:
        valid = nearest(name, [known.name for known in ref.columns])
        raise plan_error(context.bound, code, f"{what} is not a column of stream `{ref.name}`", f"its columns: {valid}")
    return column


def _config_step(
    context: ChainContext, origin: Literal["config_field", "stream_column"], column: Column, known: str | None,
    *, strict: bool | None,
) -> TimeStep:  # fmt: skip
    guessed = known or _TYPE_OF_COLUMN.get((column.type or "TIMESTAMP").upper())
    if guessed is None:
        raise plan_error(
            context.bound, "EVENTTIME_TYPE_NEEDED",
            f"`event_time_field` `{column.name}` is {column.type}, and its unit is not declared",
            f'declare it on the stream: `eventtime = {{ column = "{column.name}", type = "…" }}` (types: '
            f"{', '.join(context.types.list())})",
        )  # fmt: skip
    is_strict = strict if strict is not None else context.options.eventtime.strict
    return TimeStep(origin, quote(column.name), guessed, (column.name,), "error" if is_strict else "next")


def _with_fallbacks(step: TimeStep, columns: Sequence[Column], format_name: str | None) -> tuple[TimeStep, ...]:
    """The metadata a source may carry, then processing time; a strict step has nothing after it."""
    if step.on_failure == "error":
        return (step,)
    found = [column for name in METADATA_COLUMNS if (column := find_column(columns, name))]
    metadata = [
        TimeStep("metadata", quote(column.name), _TYPE_OF_COLUMN[column.type.upper()], (column.name,))
        for column in found
        if column.type.upper() in _TYPE_OF_COLUMN and quote(column.name) != step.text
    ]
    stamp = [TimeStep("source", SOURCE_TIME, "timestamp")] if format_name in STAMPING_FORMATS else []
    return (step, *metadata, *stamp, _PROCESSING_TIME)


def _format_of(context: ChainContext, ref: StreamRef) -> str | None:
    stream = context.streams.get(ref.name)
    return stream.format if stream else None
