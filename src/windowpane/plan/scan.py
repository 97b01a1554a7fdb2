"""The columnar scan: which queries a worker can read, evaluate and fold by itself, so that no raw row enters the JVM.

Spark's file source still says which files belong to a micro-batch, so offsets and restarts are its own. A worker reads
the columns with Arrow. What is more than a bare column is computed by DuckDB, where its value is certain to be Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windowpane.config import Stream
from windowpane.errors import PlanError, SqlError
from windowpane.plan import physical
from windowpane.plan.guard import row_error_detail
from windowpane.plan.node import PlanNode, find
from windowpane.plan.steps import EventTimeColumn, TimeStep
from windowpane.sql import to_duckdb
from windowpane.sql.query import Column, Expr
from windowpane.sql.types import INTEGRAL, to_arrow

ARROW, JSON = "arrow", "json"
FORMATS = ("parquet", ARROW, JSON)
"""Formats that workers read by themselves."""
_UNITS_US = {"unixtimestamp_s": 1_000_000, "unixtimestamp_ms": 1_000, "unixtimestamp_us": 1}
_INSTANTS = {"timestamp": ("TIMESTAMP",), "iso8601": ("TIMESTAMP", "STRING")}
_JSON_READABLE = ("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING")
"""Spark lets a number that is too large for the smaller integers overflow, so those are left to it."""
_READABLE = (*_JSON_READABLE, "TINYINT", "SMALLINT", "DATE", "TIMESTAMP", "DECIMAL")
_FILE_OPTIONS = {
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "cleanSource",
    "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup", "modifiedAfter", "modifiedBefore",
}  # fmt: skip
"""Options that say which files are read, not how."""


@dataclass(frozen=True)
class Computed:
    """A column that DuckDB computes over the columns that are read, and its type in Spark."""

    name: str
    text: str
    type: str


@dataclass(frozen=True)
class ColumnarScan:
    """What a worker reads, and what it makes of it: the columns of the input projection."""

    stream: str
    format: str
    columns: tuple[Column, ...]
    time: EventTimeColumn | None
    """None in processing time."""
    plain: tuple[tuple[str, str], ...]
    """Columns of the projection that are columns of the files, with their names there."""
    computed: tuple[Computed, ...]
    where: str | None
    """The column of the projection that says whether a row is kept."""
    original: bool
    """Side outputs keep original events."""
    detail: str | None = None
    """For a row that has an error, which expression is to blame: in DuckDB's SQL."""


def resolve_scan(
    root: PlanNode, streams: Mapping[str, Stream], *, reinjects: bool = False
) -> tuple[ColumnarScan | None, tuple[str, ...]]:
    """The scan of a plan, if it has one, and what EXPLAIN says of it.

    PlanError SCAN_IMPOSSIBLE where one is demanded, by setting or because Spark does not read the format. `reinjects`:
    side rows are read again, which Spark does.
    """
    asked = {name: stream for name in _streams(root) if (stream := streams.get(name)) is not None and _may(stream)}
    if not asked:
        return None, ()
    try:
        if reinjects:
            raise _Refused("side rows are read again beside it")  # noqa: TRY301
        scan = _chosen(root, streams)
    except _Refused as refused:
        _demand_none(asked, str(refused))
        return None, tuple(f"{name} is read by Spark, not by the columnar scan: {refused}" for name in asked)
    return scan, (f"{scan.stream} is read by the columnar scan: no raw row enters the JVM",)


def _may(stream: Stream) -> bool:
    return stream.scan == "columnar" or (stream.format in FORMATS and stream.scan == "auto") or stream.format == ARROW


def _demand_none(asked: Mapping[str, Stream], reason: str) -> None:
    for name, stream in asked.items():
        if stream.scan == "columnar" or stream.format == ARROW:
            why = (
                "is set to the columnar scan"
                if stream.scan == "columnar"
                else "is in Arrow files, which Spark does not read"
            )
            raise PlanError("SCAN_IMPOSSIBLE", f"stream `{name}` {why}: {reason}", key=f"streams.{name}.scan")


class _Refused(Exception):  # noqa: N818  # not an error: a reason
    """Why there is no scan."""


def _streams(root: PlanNode) -> list[str]:
    found = [root.stream] if isinstance(root, physical.PhysicalDataSource) else []
    return found + [name for child in root.children() for name in _streams(child)]


def _chosen(root: PlanNode, streams: Mapping[str, Stream]) -> ColumnarScan:
    project = find(root, physical.PhysicalProject)
    below = project.child if project is not None else None
    timed = below if isinstance(below, physical.PhysicalEventTime) else None
    source = timed.child if timed is not None else below
    if project is None or not isinstance(source, physical.PhysicalDataSource):
        raise _Refused("FROM has another table or stream")
    stream = streams[source.stream]
    _check_source(source, stream)
    if project.original and not _folds(root):
        raise _Refused("a side output keeps original events, and rows are not folded where they are read")
    columns = {column.name: column for column in source.columns or ()}
    types = {name: column.type for name, column in columns.items()}
    plain = tuple((each.name, _name(each.expr)) for each in project.columns if _name(each.expr) in columns)
    computed = [_computed(each.name, each.expr, types) for each in project.columns if _name(each.expr) not in columns]
    if project.error is not None:
        computed.append(_computed("_error", project.error, types))
    return ColumnarScan(
        source.stream, str(stream.format), tuple(columns.values()), _event_time(timed, types) if timed else None,
        plain, tuple(computed), project.where, project.original, _detail(project, source, types),
    )  # fmt: skip


def _folds(root: PlanNode) -> bool:
    """Only rows that leave by a side output need their event."""
    fused = find(root, physical.PhysicalStreamingAggregation)
    return fused is not None and fused.aggregation.max_groups is None and find(root, physical.PhysicalDedupe) is None


def _check_source(source: physical.PhysicalDataSource, stream: Stream) -> None:
    if stream.format not in FORMATS:
        raise _Refused(f"format {stream.format} is read by Spark")
    if source.columns is None:
        raise _Refused("the stream declares no schema")
    if "://" in (stream.path or "") and not (stream.path or "").startswith("file://"):
        raise _Refused("its files are not on a file system that workers see")
    if stream.format == JSON and (special := sorted(set(stream.spark_options) - _FILE_OPTIONS)):
        raise _Refused(f"option {special[0]} is for Spark's reader")
    for column in source.columns:
        if to_arrow(column.type) is None or column.type.partition("(")[0] not in _READABLE:
            raise _Refused(f"column `{column.name}` is {column.type}")
        if stream.format == JSON and column.type not in _JSON_READABLE:
            raise _Refused(f"column `{column.name}` is {column.type}, and read from JSON by Spark")
        if "." in column.name:
            raise _Refused(f"column `{column.name}` has a dot in its name")


def _name(expr: Expr) -> str:
    """The column that an expression is, where it is one."""
    return expr.text.strip("`")


def _computed(name: str, expr: Expr, types: Mapping[str, str]) -> Computed:
    if expr.type is None or to_arrow(expr.type) is None:
        raise _Refused(f"only Spark knows the type of `{expr.text}`")
    try:
        return Computed(name, to_duckdb(expr.text, dict(types)), expr.type)
    except SqlError as unsure:
        raise _Refused(unsure.message) from unsure


def _detail(
    project: physical.PhysicalProject, source: physical.PhysicalDataSource, types: Mapping[str, str]
) -> str | None:
    text = row_error_detail(project.columns, source.columns or ()) if project.error is not None else None
    return None if text is None else _computed("_detail", Expr(text, "STRING"), types).text


def _event_time(node: physical.PhysicalEventTime, types: Mapping[str, str]) -> EventTimeColumn | None:
    first, *rest = node.steps
    if first.origin == "processing_time":
        return None
    if [step.origin for step in rest] not in ([], ["processing_time"]) or first.error is not None:
        raise _Refused("event time is looked for in more than one place")
    column = first.text.strip("`")
    kind = types.get(column)
    unit_us = _UNITS_US.get(first.type)
    readable = kind in INTEGRAL if unit_us is not None else kind in _INSTANTS.get(first.type, ())
    if not readable:
        raise _Refused(f"event time is {_shown(first)} of {kind or 'an expression'}")
    return EventTimeColumn(column, unit_us, first.on_failure == "error", first.type)


def _shown(step: TimeStep) -> str:
    return f"{step.text}: {step.type}"
