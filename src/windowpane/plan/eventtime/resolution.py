"""The chain that resolves a row's event time: SQL, then configuration, then source metadata, then processing time.

Checks what a declaration can get wrong: missing, a column that is not there, an unknown type, one that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import PlanError, nearest
from windowpane.formats import source_format
from windowpane.plan.columns import find_column, quote
from windowpane.plan.context import PlanContext
from windowpane.plan.eventtime.steps import PROCESSING_TIME_STEP, Origin, TimeChains, TimeStep
from windowpane.plan.guard import guard_of
from windowpane.sql import expression_problem
from windowpane.sql.query import Column, Expr, StreamRef
from windowpane.sql.types import no_event_time

METADATA_COLUMNS = ("received_at", "@timestamp")

_TYPE_OF_COLUMN = {"TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "timestamp", "DATE": "timestamp", "STRING": "iso8601"}


def resolve_chains(context: PlanContext) -> TimeChains:
    """The chains of an event-time query."""
    window, field = context.bound.window, context.transform.event_time_field
    if window and window.on:
        return TimeChains(top=(_sql_step(context, window.on),))
    if field is not None:
        return _field_chains(context, field)
    return TimeChains(per_stream=tuple(_declared_chain(context, ref) for ref in context.refs()))


def at_declared_time(context: PlanContext) -> PlanContext:
    """The query without `ON ts` if its stream declares ts: all queries that read a stream then read its time alike."""
    window, refs = context.bound.window, context.refs()
    declared = [context.streams[ref.name].eventtime for ref in refs if ref.name in context.streams]
    columns = [each.column for each in declared if each is not None and each.column is not None]
    if window is None or window.on is None or window.on.text not in [quote(column) for column in columns]:
        return context
    return replace(context, bound=replace(context.bound, window=replace(window, on=None)))


def time_by_sql(time: tuple[Expr, str], columns: Sequence[Column]) -> TimeStep:
    """A time that a query gives by an expression, of this event-time type: `ON`, or the column that a join compares."""
    expr, kind = time
    types: dict[str, str | None] = {column.name: column.type for column in columns}
    return TimeStep(
        "sql_override",
        text=expr.text,
        type=kind,
        column_type=expr.type,
        columns=expr.columns,
        on_failure="error",
        error=guard_of(expr, types),
    )


def _sql_step(context: PlanContext, on: Expr) -> TimeStep:
    """`ON` is authoritative: no fallback. A bare column that a stream declares is read as declared."""
    declared = _declared_type(context, on.text)
    if declared is None and (problem := no_event_time(on.text, on.type)):
        raise context.error("EVENT_TIME_TYPE", *problem, span=on.span)
    kind = declared or _TYPE_OF_COLUMN.get(on.type or "", "timestamp")
    return time_by_sql((on, kind), context.bound.relation.columns)


def _field_chains(context: PlanContext, field: str) -> TimeChains:
    """`event_time_field` names a column of the stream; with a union one of the union, else of each of its streams."""
    relation = context.bound.relation
    column = find_column(relation.columns, field) if relation.branches and not relation.stream_join else None
    if column:
        return TimeChains(top=_with_fallbacks(_field_step(context, column), relation.columns, None))
    return TimeChains(per_stream=tuple(_field_chain(context, ref, field) for ref in context.refs()))


def _field_chain(context: PlanContext, ref: StreamRef, field: str) -> tuple[TimeStep, ...]:
    key = context.own_key("event_time_field")
    column = _column_of(context, ref, field, "EVENT_TIME_FIELD_NOT_FOUND", key)
    return _with_fallbacks(_field_step(context, column), ref.columns, _format_of(context, ref))


def _field_step(context: PlanContext, column: Column) -> TimeStep:
    """The column is read as its stream declares it, or by its type. Numbers need a declared unit."""
    guessed = _TYPE_OF_COLUMN.get((column.type or "TIMESTAMP").upper())
    kind = _declared_type(context, quote(column.name)) or guessed
    if kind is None:
        raise context.error(
            "EVENTTIME_TYPE_NEEDED", f"`event_time_field` `{column.name}` is {column.type}: its unit is not declared",
            f'declare it on the stream: `eventtime = {{ column = "{column.name}", type = "…" }}`, types are '
            f"{_types(context)}", key=context.own_key("event_time_field"),
        )  # fmt: skip
    return _config_step("config_field", column, kind, strict=context.options.eventtime.strict)


def _declared_chain(context: PlanContext, ref: StreamRef) -> tuple[TimeStep, ...]:
    stream = context.streams.get(ref.name)
    declared = stream.eventtime if stream else None
    if stream is None or declared is None:
        raise context.error(
            "EVENTTIME_NOT_DECLARED", f"`eventtime.enabled` is true, but stream `{ref.name}` declares no event time",
            f'add `eventtime = {{ column = "…", type = "…" }}` to the stream (types: {_types(context)}), '
            "`event_time_field` to the transform, or `WINDOW … ON <column>` to the SQL", key=f"streams.{ref.name}",
        )  # fmt: skip
    place = f"streams.{ref.name}.eventtime"
    column = _column_of(context, ref, declared.column, "EVENTTIME_COLUMN_NOT_FOUND", f"{place}.column")
    kind = _fitting_type(context, column, declared.type, f"{place}.type")
    strict = context.options.eventtime.strict if declared.strict is None else declared.strict
    return _with_fallbacks(_config_step("stream_column", column, kind, strict=strict), ref.columns, stream.format)


def _declared_type(context: PlanContext, text: str) -> str | None:
    """The declared type of column `text`, if a stream in FROM declares just that column."""
    for ref in context.refs():
        declared = context.streams[ref.name].eventtime if ref.name in context.streams else None
        if declared and quote(declared.column).lower() == text.lower():
            column = find_column(ref.columns, declared.column) or Column(declared.column, "")
            return _fitting_type(context, column, declared.type, f"streams.{ref.name}.eventtime.type")
    return None


def _fitting_type(context: PlanContext, column: Column, name: str, key: str) -> str:
    """Checks that `name` is a registered type and reads columns of that type."""
    try:
        parser = context.types.resolve(name).parser
    except PlanError as error:
        error.key = key
        raise
    if not parser.takes(column.type):
        raise context.error(
            "EVENTTIME_TYPE_MISMATCH", f"`eventtime.type` `{name}` does not read {column.type} (`{column.name}`)",
            f"types that do: {', '.join(_types_for(context, column)) or '(none)'}", key=key,
        )  # fmt: skip
    if isinstance(parser.sql, str):
        _check_template(context, name, parser.sql, column, key)
    return name


def _check_template(context: PlanContext, name: str, template: str, column: Column, key: str) -> None:
    """Refuses a user's type whose SQL cannot be parsed or does not mention the column."""
    problem = expression_problem(template.replace("{column}", quote(column.name)))
    if problem is None and "{column}" not in template:
        problem = "it does not mention {column}"
    if problem is not None:
        raise context.error(
            "BAD_EVENTTIME_TYPE", f"the expression of eventtime.type `{name}` cannot be used: {problem}: {template}",
            "write Spark SQL over {column} that yields BIGINT microseconds or TIMESTAMP", key=key,
        )  # fmt: skip


def _types(context: PlanContext) -> str:
    return ", ".join(context.types.list())


def _types_for(context: PlanContext, column: Column) -> list[str]:
    return [name for name in context.types.list() if context.types.resolve(name).parser.takes(column.type)]


def _column_of(context: PlanContext, ref: StreamRef, name: str, code: str, key: str) -> Column:
    """The column in the stream's schema. If the schema is unknown, the column is assumed to exist."""
    column = find_column(ref.columns, name) if ref.columns else Column(name, "")
    if column is None:
        hint = f"its columns: {nearest(name, [known.name for known in ref.columns])}"
        raise context.error(code, f"stream `{ref.name}` has no column `{name}`", hint, key=key)
    return column


def _config_step(origin: Origin, column: Column, kind: str, *, strict: bool) -> TimeStep:
    return TimeStep(
        origin,
        quote(column.name),
        type=kind,
        column_type=column.type or None,
        columns=(column.name,),
        on_failure="error" if strict else "next",
    )


def _with_fallbacks(step: TimeStep, columns: Sequence[Column], format_name: str | None) -> tuple[TimeStep, ...]:
    """Adds the fallbacks of a step: metadata of the source, then processing time. A strict step has none."""
    if step.on_failure == "error":
        return (step,)
    found = [column for name in METADATA_COLUMNS if (column := find_column(columns, name))]
    readable = [column for column in found if column.type in _TYPE_OF_COLUMN and column.name not in step.columns]
    metadata = [_config_step("metadata", column, _TYPE_OF_COLUMN[column.type], strict=False) for column in readable]
    stamp = [TimeStep("source", SOURCE_TIME, "timestamp", "TIMESTAMP")] if source_format(format_name).timestamp else []
    return (step, *metadata, *stamp, PROCESSING_TIME_STEP)


def _format_of(context: PlanContext, ref: StreamRef) -> str | None:
    stream = context.streams.get(ref.name)
    return stream.format if stream else None
