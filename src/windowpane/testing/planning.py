"""Plans the query of a harness from plain settings, as a pipeline.toml would have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from windowpane.config import Stream, parse_options, parse_stream, parse_table, parse_transform
from windowpane.core.windows.cut import Cut
from windowpane.errors import ConfigError, SqlError
from windowpane.plan.adoption import Adopted, adopt_names, keep_closed
from windowpane.plan.build import Plan, plan_query
from windowpane.plan.cuts import first_start_us
from windowpane.plan.eventtime.types import EventtimeTypes
from windowpane.plan.hand_over import check_start, cut_plan
from windowpane.plan.pipeline import source_schema
from windowpane.sql import Catalog, bind, parse_schema, transform_at_fault
from windowpane.sql.query import Column
from windowpane.testing.decode import decode

Settings = Mapping[str, object]


@dataclass(frozen=True)
class QuerySettings:
    """The surroundings of a query: what `Harness` takes."""

    streams: Mapping[str, Settings]
    options: Settings = field(default_factory=dict)
    transform: Settings = field(default_factory=dict)
    tables: Mapping[str, Settings] = field(default_factory=dict)
    transforms: Mapping[str, Settings] = field(default_factory=dict)

    def having(self, transform: Settings | None, options: Settings | None) -> QuerySettings:
        """The same with other keys of the transform and options, where they are given."""
        return replace(
            self,
            transform=self.transform if transform is None else transform,
            options=self.options if options is None else options,
        )


@dataclass(frozen=True)
class PlannedQuery:
    """A plan with what the harness needs to evaluate its input."""

    plan: Plan
    columns: Mapping[str, tuple[Column, ...]]
    """The columns of each stream."""
    tables: Mapping[str, pa.Table]
    """The static tables."""
    table_columns: Mapping[str, tuple[Column, ...]]


def plan_test_query(
    sql: str, settings: QuerySettings, types: EventtimeTypes, adopted: Adopted | None = None
) -> PlannedQuery:
    """Parse the settings, bind the query to them and plan it. `adopted`: what it takes over from an earlier one."""
    streams = {name: parse_stream(name, dict(given)) for name, given in settings.streams.items()}
    columns = {name: _columns(name, stream) for name, stream in streams.items()}
    tables = {name: _table(name, given) for name, given in settings.tables.items()}
    others = {name: parse_transform(dict(given), name) for name, given in settings.transforms.items()}
    queries = {name: transform.query for name, transform in others.items()}
    catalog = Catalog(columns, {name: declared for name, (declared, _) in tables.items()}, queries=queries)
    try:
        bound = bind(sql, catalog)
        plan = plan_query(
            bound if adopted is None else adopt_names(bound, adopted),
            streams,
            options=parse_options(dict(settings.options)),
            transform=parse_transform(dict(settings.transform)),
            registry=types,
            others=others,
        )
    except SqlError as error:
        transform_at_fault(error, sql, queries)
        raise
    check_start(plan)
    begins_us = first_start_us(plan)
    plan = plan if begins_us is None else cut_plan(plan, Cut(from_us=begins_us))
    return PlannedQuery(
        plan if adopted is None else keep_closed(plan, adopted.closed_until_us),
        columns,
        tables={name: rows for name, (_, rows) in tables.items()},
        table_columns={name: declared for name, (declared, _) in tables.items()},
    )


def _columns(name: str, stream: Stream) -> tuple[Column, ...]:
    if stream.schema_ is None:
        raise ConfigError(
            "MISSING_KEY",
            f"stream `{name}` has no schema",
            'give it one: "ts BIGINT, k STRING"',
            key=f"streams.{name}.schema",
        )
    return source_schema(stream) or ()


def _table(name: str, settings: Settings) -> tuple[tuple[Column, ...], pa.Table]:
    given = dict(settings)
    rows = given.pop("rows", [])
    columns = parse_schema(parse_table(name, given).schema_ or "")
    return columns, decode(rows, columns).table
