"""The registry of event-time types: how a column's values become microseconds, in Spark SQL and in Arrow.

`eventtime.type` in a stream's declaration is a name of this registry. Users add their own with `register`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias

import pyarrow as pa

from windowpane.errors import PlanError, nearest
from windowpane.evaluation.iso8601 import ISO_8601, parse_iso8601
from windowpane.evaluation.unix_times import ParsedTimes, parse_timestamps, parse_unix

ArrowParser: TypeAlias = Callable[[pa.Array], ParsedTimes]
"""Microseconds, NULL for rows without a time; and for each row whether it has a value that cannot be read."""
SqlParser: TypeAlias = str | Callable[[str, str | None], str]
"""A template with `{column}`, or a function of the column's text and type. BIGINT microseconds, NULL if unreadable."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")
_INSTANTS = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


@dataclass(frozen=True)
class EventtimeParser:
    """How one type is read: by Spark SQL, or by a function over Arrow columns. Spark takes `sql` where there are both,
    the harness `arrow`.

    A template may yield TIMESTAMP too, and is guarded: a value that it cannot compute is one that cannot be read. A
    function that gives SQL must take care of that itself. `accepts` lists the column types (without parameters) that
    can be read at all, for the planner; empty means any.
    """

    sql: SqlParser | None = None
    arrow: ArrowParser | None = None
    accepts: tuple[str, ...] = ()

    def spark_sql(self, column: str, column_type: str | None = None) -> str:
        """The expression for Spark, over the SQL text of the column."""
        if self.sql is None:
            raise PlanError("EVENTTIME_NO_SQL", "this event-time type has no Spark SQL", "give its parser a `sql`")
        if callable(self.sql):
            return self.sql(column, column_type)
        return self.sql.replace("{column}", column)

    def takes(self, column_type: str | None) -> bool:
        base = (column_type or "").upper().partition("(")[0].partition("<")[0]
        return not base or not self.accepts or base in self.accepts


@dataclass(frozen=True)
class EventtimeType:
    """A registered name with its parser."""

    name: str
    parser: EventtimeParser


@dataclass
class EventtimeTypes:
    """Event-time types by name."""

    _parsers: dict[str, EventtimeParser] = field(default_factory=dict)

    def register(self, name: str, parser: EventtimeParser | str) -> None:
        """Adds or replaces a type. A string is a template of Spark SQL."""
        if not name.strip():
            raise PlanError("BAD_EVENTTIME_TYPE", "an event-time type needs a name", None)
        self._parsers[name] = EventtimeParser(sql=parser) if isinstance(parser, str) else parser

    def resolve(self, name: str) -> EventtimeType:
        """The type of that name; PlanError UNKNOWN_EVENTTIME_TYPE lists the registered ones."""
        if name not in self._parsers:
            message = f"`{name}` is not a registered eventtime.type"
            raise PlanError("UNKNOWN_EVENTTIME_TYPE", message, f"registered: {nearest(name, self._parsers)}")
        return EventtimeType(name, self._parsers[name])

    def extended(self, templates: Mapping[str, str]) -> EventtimeTypes:
        """These types and further ones, given as templates of Spark SQL."""
        if not templates:
            return self
        return EventtimeTypes(self._parsers | {name: EventtimeParser(sql=text) for name, text in templates.items()})

    def list(self) -> builtins.list[str]:
        """The registered names, sorted."""
        return sorted(self._parsers)


@cache
def _unix_parser(unit_us: int) -> Callable[[pa.Array], ParsedTimes]:
    """One for all plans: transforms whose times are computed alike compute them once."""
    return partial(parse_unix, unit_us=unit_us)


def _unix_sql(unit_us: int) -> Callable[[str, str | None], str]:
    def sql(column: str, column_type: str | None) -> str:
        if (column_type or "").upper() in _INTEGERS:
            return f"try_multiply(CAST({column} AS BIGINT), {unit_us}L)"
        return f"try_cast(floor(try_cast({column} AS DECIMAL(38,18)) * {unit_us}) AS BIGINT)"

    return sql


def _unix(unit_us: int) -> EventtimeParser:
    return EventtimeParser(_unix_sql(unit_us), _unix_parser(unit_us), (*_NUMBERS, "STRING"))


def _iso_sql(column: str, column_type: str | None) -> str:
    """Spark's own cast reads more than ISO 8601 (`now`, `2024`), so the shape comes first. The session is in UTC.

    It reads no offset right after the minutes, so seconds are put in there.
    """
    if (column_type or "").upper() in _INSTANTS:
        return _TIMESTAMP_SQL.replace("{column}", column)
    text = f"regexp_replace(trim({column}), '{_OFFSET_AFTER_MINUTES}', '$1:00$2')"
    return f"CASE WHEN trim({column}) RLIKE '{ISO_8601}' THEN unix_micros(try_cast({text} AS TIMESTAMP)) END"


_OFFSET_AFTER_MINUTES = "^(.{10}[T ][0-9]{2}:[0-9]{2})(Z|[+-].*)$"
_TIMESTAMP_SQL = "unix_micros(CAST({column} AS TIMESTAMP))"


def builtin_types() -> EventtimeTypes:
    """A registry with the built-in types alone."""
    types = EventtimeTypes()
    types.register("unixtimestamp_s", _unix(1_000_000))
    types.register("unixtimestamp_ms", _unix(1_000))
    types.register("unixtimestamp_us", _unix(1))
    types.register("iso8601", EventtimeParser(_iso_sql, parse_iso8601, ("STRING", *_INSTANTS)))
    types.register("timestamp", EventtimeParser(_TIMESTAMP_SQL, parse_timestamps, _INSTANTS))
    return types


EVENTTIME_TYPES = builtin_types()
"""The registry that pipelines use."""

register = EVENTTIME_TYPES.register
resolve = EVENTTIME_TYPES.resolve


def list() -> builtins.list[str]:  # noqa: A001  the seeds' name for it; only ever used as eventtime.list()
    """The names in the registry that pipelines use."""
    return EVENTTIME_TYPES.list()
