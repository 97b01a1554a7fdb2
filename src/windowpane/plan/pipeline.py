"""From a loaded pipeline.toml to the plans of its transforms. Errors name the file and the line they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from windowpane.config import PipelineConfig, Stream, Table, Transform
from windowpane.errors import ConfigError, PlanError, SqlError, nearest
from windowpane.plan.adoption import Adopted, adopt_names, keep_closed
from windowpane.plan.build import Plan, plan_query
from windowpane.plan.definitions import Definition, definition_of, redefined
from windowpane.plan.eventtime.types import EVENTTIME_TYPES, EventtimeTypes
from windowpane.plan.functions import load_functions
from windowpane.plan.hand_over import check_start
from windowpane.plan.repairable import unrepairable
from windowpane.sql import (
    Catalog,
    Schema,
    SessionFacts,
    bind,
    columns_of,
    parse_schema,
    transform_at_fault,
    with_record_columns,
)
from windowpane.sql.query import BoundQuery


def plan_pipeline(
    config: PipelineConfig, only: str | None = None, registry: EventtimeTypes = EVENTTIME_TYPES
) -> tuple[Plan, ...]:
    """The plans of the transforms that run, in the order of the file, or of the one called `only`.

    A transform without a sink does not run by itself: others read it.
    """
    plans = plan_transforms(config, only, registry)
    if only is not None and not config.transforms[only].sinks:
        key = f"transforms.{only}.sink"
        message, hint = f"transform `{only}` has no sink, so it cannot run by itself", "run the transforms that read it"
        raise config.error("MISSING_KEY", message, hint, key=key)
    return tuple(plan for plan in plans if config.transforms[plan.transform].sinks)


def plan_transforms(
    config: PipelineConfig, only: str | None = None, registry: EventtimeTypes = EVENTTIME_TYPES
) -> tuple[Plan, ...]:
    """The plans of all transforms, or of the one called `only`: those without a sink too."""
    if only is not None and only not in config.transforms:
        valid = nearest(only, config.transforms)
        raise config.error("UNKNOWN_TRANSFORM", f"there is no transform `{only}`", f"transforms: {valid}")
    load_functions(config)
    catalog = pipeline_catalog(config)
    chosen = {name: each for name, each in config.transforms.items() if only in (None, name)}
    plans = tuple(_plan_transform(config, name, each, catalog, registry) for name, each in chosen.items())
    if only is None:
        _check_sinks(config, {name for plan in plans for name in plan.query.transforms})
    return plans


def _check_sinks(config: PipelineConfig, read: set[str]) -> None:
    """A transform needs a sink, or another transform that reads it."""
    for name, transform in config.transforms.items():
        if not transform.sinks and name not in read:
            hint = f"name one of: {nearest('', config.sinks)}; or read `{name}` in another transform"
            key = f"transforms.{name}"
            raise config.error("MISSING_KEY", f"`{key}` needs the key `sink`", hint, key=f"{key}.sink")
        if not transform.sinks and transform.side_output.model_fields_set:
            message = f"transform `{name}` has no sink, so it does not run by itself, and its side_output gets no rows"
            hint = "set side_output in the transforms that read it, or give it a sink"
            raise config.error("UNSUPPORTED_ROUTE", message, hint, key=f"transforms.{name}.side_output")


def missing_paths(config: PipelineConfig, plans: Sequence[Plan]) -> Iterator[ConfigError]:
    """An error for each stream and table that the plans read from a file or folder that does not exist, and for each
    stream of which Spark would have to list a file instead of a folder.
    """
    relations = [plan.query.source.relation for plan in plans]
    waits = "correct the path, or set create = true to create the folder and wait for files"
    for name in dict.fromkeys(stream.name for relation in relations for stream in relation.streams):
        yield from _missing_path(config, "stream", name, config.streams[name], waits)
        yield from _file_instead_of_folder(config, name, config.streams[name])
    for name in dict.fromkeys(join.table for relation in relations for join in relation.tables):
        yield from _missing_path(config, "table", name, config.tables[name], "correct the path")


def _file_instead_of_folder(config: PipelineConfig, name: str, stream: Stream) -> Iterator[ConfigError]:
    path = Path(config.resolve(stream.path or ""))
    if stream.path is not None and stream.source_format.is_files and ":" not in str(path) and path.is_file():
        message = f"stream `{name}`: `{stream.path}` is a file, and Spark reads streams from folders"
        parent = stream.path.rpartition("/")[0] or "."
        hint = f'set path = "{parent}" and options = {{ pathGlobFilter = "{path.name}" }}'
        yield config.error("PATH_IS_A_FILE", message, hint, key=f"streams.{name}.path")


def _missing_path(
    config: PipelineConfig, kind: str, name: str, source: Stream | Table, hint: str
) -> Iterator[ConfigError]:
    if source.path is not None and source.lacks_folder(config.resolve(source.path)):
        message = f"{kind} `{name}`: there is no file or folder `{source.path}`"
        yield config.error("PATH_NOT_FOUND", message, hint, key=f"{kind}s.{name}.path")


def pipeline_catalog(config: PipelineConfig) -> Catalog:
    """What the pipeline's queries can name."""
    streams = {name: _schema(config, f"streams.{name}", stream) for name, stream in config.streams.items()}
    tables = {name: _schema(config, f"tables.{name}", table) for name, table in config.tables.items()}
    registered = {name.lower() for name in config.spark.functions}
    # Extensions bring functions that only the running session can list.
    extended = "spark.sql.extensions" in config.spark.config
    queries = {name: transform.query for name, transform in config.transforms.items()}
    return Catalog(streams, tables, lambda name: extended or name in registered, queries)


def stream_catalog(streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> Catalog:
    """The same for streams and tables that come from no file."""
    return Catalog(
        {name: source_schema(stream) for name, stream in streams.items()},
        {name: source_schema(table) for name, table in tables.items()},
    )


def source_schema(source: Stream | Table) -> Schema:
    """Declared columns, else those that Spark's source always has, else None: only Spark knows them."""
    known = source.source_format
    if source.schema_ is None:
        return None if known.columns is None else columns_of(known.columns)
    declared = parse_schema((source.declared if isinstance(source, Stream) else source.schema_) or "")
    return with_record_columns(declared, known.record_columns) if isinstance(source, Stream) else declared


def _schema(config: PipelineConfig, place: str, source: Stream | Table) -> Schema:
    try:
        return source_schema(source)
    except SqlError as error:
        _locate(error, config, config.line_of(f"{place}.schema"))
        raise


def _plan_transform(
    config: PipelineConfig, name: str, transform: Transform, catalog: Catalog, registry: EventtimeTypes
) -> Plan:
    with _located(config, name, transform):
        return _planned(config, name, bind(transform.query, catalog, name), registry)


def _planned(config: PipelineConfig, name: str, bound: BoundQuery, registry: EventtimeTypes) -> Plan:
    plan = plan_query(
        bound,
        config.streams,
        options=config.options,
        transform=config.transforms[name],
        registry=registry,
        name=name,
        session=SessionFacts.of(config.spark.spark_config),
        others=config.transforms,
    )
    check_start(plan)
    keep_us = config.transforms[name].keep_closed_us
    if keep_us is not None and (why := unrepairable(plan)) is not None:
        raise config.error(
            "UNSUPPORTED_KEEP_CLOSED", f"`keep_closed` of transform `{name}` does not apply: {why}",
            "remove it, or keep the windows of a transform with tumbling, hopping or cumulate windows and aggregates",
            key=f"transforms.{name}.keep_closed",
        )  # fmt: skip
    return replace(plan, keep_closed_us=keep_us, definition=definition_of(config, name))


def defined_plan(config: PipelineConfig, name: str, definition: Definition, registry: EventtimeTypes) -> Plan:
    """The plan of a transform as it was defined earlier."""
    earlier = redefined(config, name, definition)
    bound = bind(definition.sql, pipeline_catalog(earlier), name)
    return replace(_planned(earlier, name, bound, registry), definition=definition)


def adopted_plan(config: PipelineConfig, plan: Plan, adopted: Adopted | None) -> Plan:
    """The plan of a transform that goes on with the state of the plans before it."""
    if adopted is None:
        return plan
    if plan.definition is not None:
        config = redefined(config, plan.transform, plan.definition)
    transform = config.transforms[plan.transform]
    bound = adopt_names(bind(transform.query, pipeline_catalog(config), plan.transform), adopted)
    made = keep_closed(_planned(config, plan.transform, bound, plan.types), adopted.closed_until_us)
    return replace(made, definition=plan.definition)


@contextmanager
def _located(config: PipelineConfig, name: str, transform: Transform) -> Iterator[None]:
    try:
        yield
    except SqlError as error:
        queries = {other: each.query for other, each in config.transforms.items()}
        found = transform_at_fault(error, transform.query, queries)
        name, transform = (name, transform) if found is None else (found, config.transforms[found])
        if isinstance(error, PlanError) and error.key is not None and error.span is None:
            _locate(error, config, config.line_of(error.key))
        elif transform.sql_file is not None:
            error.file = config.resolve(transform.sql_file)
            error.file_line = _sql_line(error)
        else:
            _locate(error, config, _line_in_toml(config, f"transforms.{name}.sql", _sql_line(error)))
        raise


def _locate(error: SqlError, config: PipelineConfig, line: int | None) -> None:
    """Sets the place, and takes out values that came from the environment."""
    error.file, error.file_line = config.file, line
    error.message = config.redact(error.message)
    error.hint = config.redact(error.hint) if error.hint else None
    shown = config.redact(error.sql)
    if shown != error.sql:
        error.sql, error.span = shown, None


def _sql_line(error: SqlError) -> int:
    return error.span.locate(error.sql)[0] if error.span is not None and error.sql else 1


def _line_in_toml(config: PipelineConfig, key: str, sql_line: int) -> int | None:
    """The line of the file for a line of the SQL. TOML drops the line break right after an opening `\"\"\"`."""
    first = config.line_of(key)
    if first is None or config.file is None:
        return first
    try:
        written = Path(config.file).read_text(encoding="utf-8").splitlines()[first - 1]
    except (OSError, IndexError) as error:
        raise ConfigError("CONFIG_CHANGED", f"`{config.file}` changed while it was read", file=config.file) from error
    value = written.partition("=")[2].strip()
    if not value.startswith(('"""', "'''")):
        return first
    return first + sql_line - 1 + (len(value) == len('"""'))
