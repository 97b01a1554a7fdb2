"""`windowpane.sql`: a windowed query inside someone's own Spark job, as a streaming DataFrame.

Sinks, checkpoint and ledger are the job's own, so the stages get no feedback from them: rows travel unfolded, and the
merge stage judges lateness by the watermark in its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pyspark.sql import DataFrame, SparkSession

from windowpane.config import Options, Stream, parse_options, parse_stream, parse_transform
from windowpane.connectors.sources import open_stream, take_stream
from windowpane.errors import ConfigError, PlanError
from windowpane.outcomes import SIDE_KINDS
from windowpane.plan.build import Plan, plan_query
from windowpane.plan.pipeline import source_schema
from windowpane.spark.dataflow import build_dataflow
from windowpane.spark.job_inputs import JobMember, Sources
from windowpane.spark.session import prepare_session
from windowpane.spark.unpacking import SideRecords
from windowpane.sql import Catalog, bind, parse_schema
from windowpane.sql.query import BoundQuery
from windowpane.sql.result_steps import Filter

FRAME = "frame"
"""Key of a stream's settings that holds a DataFrame, in place of `format` and `path`."""
StreamGiven: TypeAlias = DataFrame | Mapping[str, Any]
_OF_THE_JOB = {
    "checkpoint": 'give writeStream its option("checkpointLocation", …)',
    "umask": "the permissions of that folder are the job's",
    "trigger": "give writeStream its trigger(…)",
    "shards": "set spark.sql.shuffle.partitions",
    "max_side_backlog": "write `side_output` with a separate query",
    "max_result_backlog_bytes": "whoever writes the results decides what happens when that fails",
    "metrics": "use Spark's own metrics",
}

if TYPE_CHECKING:

    class Results(DataFrame):
        """A streaming DataFrame of results."""

        side_output: DataFrame
        """A streaming DataFrame with one column `value`: rows that reached no result, and results that cannot be
        computed, each a JSON record."""


def sql(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, StreamGiven],
    *,
    tables: Mapping[str, DataFrame] | None = None,
    options: Mapping[str, Any] | None = None,
    transform: Mapping[str, Any] | None = None,
    originals: bool = False,
) -> Results:
    """The results of a windowed query as a streaming DataFrame, for `writeStream` in output mode append.

    `streams`: for each name a streaming DataFrame, or settings with the keys of `[streams.NAME]`, where `frame` may
    hold a DataFrame. `tables` are static DataFrames. `options` and `transform` take the keys of `[options]` and
    `[transforms.NAME]`. `originals`: records of the side output keep the row as it was read.
    """
    frames, settings = _streams(streams)
    static = dict(tables or {})
    given = _options(options or {})
    catalog = _catalog(spark, settings, static)
    plan = _plan(bind(query, catalog), settings, given, transform or {})
    shards = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    prepare_session(spark, shards)

    def open_one(name: str) -> DataFrame:
        if name in frames:
            return take_stream(frames[name], originals=originals)
        return open_stream(
            spark, name, settings[name], Path(), max_records=given.max_rows_per_batch, originals=originals
        )

    sources = Sources(open_one, static.__getitem__)
    spread = shards > 1 if given.extra_shuffles is None else given.extra_shuffles
    dataflow = build_dataflow(
        spark, [JobMember(plan, sources, spread=spread)], shards=shards, feedback=False, ticks=bool(plan.ticks_for),
        cache_bytes=given.state_cache_bytes,
    )  # fmt: skip
    side_records = SideRecords(plan.plan_id, plan.transform, SIDE_KINDS, SIDE_KINDS if originals else ())
    frame = dataflow.only_results
    results = cast("Results", frame.build(frame.unpacked(dataflow.packed)))
    results.side_output = frame.side_records(dataflow.packed, side_records)
    return results


def _streams(given: Mapping[str, StreamGiven]) -> tuple[dict[str, DataFrame], dict[str, Stream]]:
    frames: dict[str, DataFrame] = {}
    settings: dict[str, Stream] = {}
    for name, value in given.items():
        keys: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {FRAME: value}
        frame = keys.pop(FRAME, None)
        if frame is not None:
            if not isinstance(frame, DataFrame) or not frame.isStreaming:
                raise ConfigError(
                    "NOT_A_STREAM",
                    f"stream `{name}` is {_what(frame)}, not a streaming DataFrame",
                    "give what spark.readStream returns; static DataFrames go to `tables`",
                )
            frames[name] = frame
            keys["schema"] = _ddl(frame)
        settings[name] = parse_stream(name, keys)
    return frames, settings


def _options(mapping: Mapping[str, Any]) -> Options:
    """ConfigError for what only a pipeline of our own can do."""
    options = parse_options(mapping)
    for name, instead in _OF_THE_JOB.items():
        if name in options.model_fields_set:
            key = Options.model_fields[name].alias or name
            raise ConfigError(
                "NOT_IN_DATAFRAME", f"{key} only applies to a windowpane pipeline, and this is a query of the job",
                f"{instead}, or run the query with windowpane.Pipeline", key=f"options.{key}",
            )  # fmt: skip
    return options


def _catalog(spark: SparkSession, streams: dict[str, Stream], tables: dict[str, DataFrame]) -> Catalog:
    schemas = {name: source_schema(stream) for name, stream in streams.items()}
    static = {name: parse_schema(_ddl(table)) for name, table in tables.items()}
    return Catalog(schemas, static, spark.catalog.functionExists)


def _plan(bound: BoundQuery, streams: dict[str, Stream], options: Options, transform: Mapping[str, Any]) -> Plan:
    if not all(isinstance(step, Filter) for step in bound.steps):
        raise PlanError(
            "ORDER_IN_DATAFRAME",
            "ORDER BY, LIMIT and window functions look at all rows of a window, which needs a windowpane pipeline",
            "leave them out and compute them in the job's foreachBatch, or run the query with windowpane.Pipeline",
            sql=bound.text,
        )
    plan = plan_query(bound, streams, options, parse_transform(transform), name="query")
    if plan.start_us is not None:
        raise ConfigError(
            "NOT_IN_DATAFRAME", "start_at only applies to a windowpane pipeline, and this is a query of the job",
            "filter the rows of the DataFrame, or run the query with windowpane.Pipeline", key="transform.start_at",
        )  # fmt: skip
    return plan


def _ddl(frame: DataFrame) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)


def _what(value: object) -> str:
    return "a static DataFrame" if isinstance(value, DataFrame) else f"a {type(value).__name__}"
