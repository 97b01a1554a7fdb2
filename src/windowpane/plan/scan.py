"""Decides whether workers can read, evaluate and fold a query's input themselves: the columnar scan.

Spark's source still determines which files or messages belong to a micro-batch, so offsets and restarts are Spark's.
Workers read columns with Arrow. DuckDB computes expressions if the result is certain to be Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windowpane.config import Stream
from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import PlanError, SqlError
from windowpane.evaluation.event_times import EventTimes
from windowpane.evaluation.projection import Projection
from windowpane.formats import CodecFormat, source_format
from windowpane.plan import physical
from windowpane.plan.evaluation import Compiler
from windowpane.plan.eventtime.scan_times import scan_times
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.scan_sources import Refused, is_recursive, scan_columns, several_topics, why_spark_fetches
from windowpane.plan.stages import InputStage, LeafStage, StageGraph
from windowpane.scan.files import folders_of_path
from windowpane.sql import SessionFacts, Translated, parse_schema
from windowpane.sql.query import Column, Expr
from windowpane.sql.types import to_arrow

_WHERE = "_branch_where"


@dataclass(frozen=True)
class StreamScan:
    """What workers read of a stream, and how they compute the columns of the input projection from it."""

    stream: str
    partitions_of: str
    """What the names of its source partitions begin with: the stream, unless FROM names that more than once."""
    format: str
    codec: CodecFormat | None
    """How values of messages, or lines of files, are decoded."""
    decoding_options: Mapping[str, str]
    columns: tuple[Column, ...]
    """Columns of the files, or of the values of messages."""
    projections: tuple[Projection, ...]
    """How rows for the operators are computed from them. A branch of a UNION ALL has a projection of its own before."""
    original: bool
    """Side outputs keep original events."""
    own: tuple[Column, ...]
    """Further columns of messages that the query uses."""
    several_topics: bool
    max_record_bytes: int
    key_codec: CodecFormat | None = None
    key_options: Mapping[str, str] = field(default_factory=dict)
    key_columns: tuple[Column, ...] = ()
    """Of messages: how keys are decoded, and to which columns."""
    fetched_by_spark: str | None = None
    """Of messages: why Spark fetches them; None if workers do."""
    folders_of_path: int | None = None
    """As of `FileReader`."""
    declared: tuple[str, ...] = ()
    """All columns of the stream, for files in which columns are found by their place."""

    @property
    def stamped(self) -> bool:
        """Whether event times fall back to the time at which the source recorded a row."""
        times = self.projections[0].times
        return times is not None and any(each.column == SOURCE_TIME for each in times.lookups)

    def describe(self) -> str:
        if source_format(self.format).is_messages:
            if self.fetched_by_spark is None:
                return f"{self.stream} is read by the columnar scan: workers fetch its messages and decode them"
            return f"{self.stream} is fetched by Spark, and decoded by the columnar scan: {self.fetched_by_spark}"
        return f"{self.stream} is read by the columnar scan: no raw row enters the JVM"


def judges_columns(scan: StreamScan) -> bool:
    """Whether a record is bad only for transforms that read the column that does not fit. In messages, it is bad for
    all: each transform reads all columns.
    """
    known = source_format(scan.format)
    return known.is_files and known.untyped


@dataclass(frozen=True)
class ColumnarScan:
    """All streams of a query, each as often as FROM names it, in that order."""

    streams: tuple[StreamScan, ...]
    session: SessionFacts
    """Settings of the session that the computed columns depend on."""

    def holds_in(self, session: SessionFacts) -> bool:
        """Whether the computed values are Spark's in this session, whose settings may differ from those of the plan."""
        computes = any(projection.computed for stream in self.streams for projection in stream.projections)
        return self.session.hold_in(session) or not computes

    def describe(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream.describe() for stream in self.streams))


def resolve_scan(
    stages: StageGraph, streams: Mapping[str, Stream], session: SessionFacts | None = None
) -> tuple[ColumnarScan | None, tuple[str, ...]]:
    """The scan of a plan, if there is one, and the notes for EXPLAIN.

    PlanError SCAN_IMPOSSIBLE if a scan is required but not possible. `session`: settings that expressions depend on.
    """
    stage = stages.input
    known = {name: streams[name] for name in stage.streams if name in streams}
    asked = {name: stream for name, stream in known.items() if _is_candidate(stream)}
    if not asked:
        return None, ()
    try:
        if stages.output.reinjects:
            raise Refused("it also reads reinjected rows")  # noqa: TRY301
        scan = _chosen(
            stage, streams, session or SessionFacts(), folds=stages.first_window.folds and not stages.of(LeafStage)
        )
    except Refused as refused:
        _refuse_if_required(asked, str(refused))
        return None, tuple(f"{name} is read by Spark, not by the columnar scan: {refused}" for name in asked)
    return scan, scan.describe()


def _is_candidate(stream: Stream) -> bool:
    by_workers = stream.source_format.read_by_workers and stream.scan == "auto"
    return by_workers or _why_required(stream) is not None


def _why_required(stream: Stream) -> str | None:
    """Why workers have to read a stream; None if Spark can read it as well."""
    if stream.scan == "columnar":
        return "is set to the columnar scan"
    if not stream.source_format.read_by_spark:
        return f"is in {stream.source_format.name.capitalize()} files, which Spark does not read"
    if stream.codec is not None and stream.codec.spark is None:
        return f"has {stream.codec.title} values, which Spark does not decode"
    return None


def _refuse_if_required(asked: Mapping[str, Stream], reason: str) -> None:
    for name, stream in asked.items():
        if (why := _why_required(stream)) is not None:
            raise PlanError("SCAN_IMPOSSIBLE", f"stream `{name}` {why}: {reason}", key=f"streams.{name}.scan")


def _chosen(stage: InputStage, streams: Mapping[str, Stream], session: SessionFacts, *, folds: bool) -> ColumnarScan:
    """`folds`: rows are aggregated where they are read, so that only rows of a side output need their event."""
    if stage.original and not folds:
        raise Refused("a side output keeps original events, and rows are not aggregated where they are read")
    sources = stage.source.branches if isinstance(stage.source, physical.PhysicalUnion) else (stage.source,)
    return ColumnarScan(tuple(_stream_scan(stage, each, streams, session) for each in sources), session)


def _stream_scan(
    stage: InputStage, source: PlanNode, streams: Mapping[str, Stream], session: SessionFacts
) -> StreamScan:
    branch = source if isinstance(source, physical.PhysicalBranch) else None
    source = branch.child if branch is not None else source
    timed = source if isinstance(source, physical.PhysicalEventTime) else None
    source = timed.child if timed is not None else source
    if isinstance(source, physical.PhysicalGenerate):
        raise Refused("FROM makes several rows of one")
    if isinstance(source, physical.PhysicalUnion):
        raise Refused("event time is a column of the UNION ALL")
    if not isinstance(source, physical.PhysicalDataSource):
        raise Refused("FROM has another table")
    stream = streams[source.stream]
    if not _is_candidate(stream):
        raise Refused(f"FROM has {source.stream}, which is read by Spark")
    columns = scan_columns(stream, source.columns)
    times = scan_times(stage, timed.steps, columns.types) if timed else None
    try:
        projections = _projections(stage, branch, columns.types, times, session)
    except SqlError as unsure:
        raise Refused(unsure.message) from unsure
    return StreamScan(
        stream=source.stream,
        partitions_of=source.partitions_of,
        format=stream.source_format.name,
        codec=stream.codec,
        decoding_options=stream.decoding_options,
        columns=columns.read,
        projections=projections,
        original=stage.original,
        own=columns.own,
        several_topics=stream.source_format.is_messages and several_topics(stream),
        max_record_bytes=stream.max_record_bytes,
        key_codec=stream.key_codec,
        key_options=stream.key_options,
        key_columns=columns.key,
        fetched_by_spark=why_spark_fetches(stream) if stream.source_format.is_messages else None,
        folders_of_path=folders_of_path(stream.path or "", recursive=is_recursive(stream)),
        declared=tuple(each.name for each in parse_schema(stream.schema_ or ""))
        if stream.source_format.by_place
        else (),
    )


def _projections(
    stage: InputStage,
    branch: physical.PhysicalBranch | None,
    types: Mapping[str, str],
    times: EventTimes | None,
    session: SessionFacts,
) -> tuple[Projection, ...]:
    """From the columns of a stream to those of the input projection."""
    if branch is None:
        return (Compiler(types, session, _check).projection(stage.columns, times, where=stage.where),)
    columns = [InputColumn(name, expr, "key") for name, expr in branch.projection]
    columns += [InputColumn(_WHERE, branch.where, "where")] if branch.where is not None else []
    where = _WHERE if branch.where is not None else None
    first = Compiler(types, session, _check).projection(columns, times, where=where)
    named = {name: expr.type for name, expr in branch.projection}
    second = Compiler(named, session, _check).projection(stage.columns, where=stage.where)
    return first, replace(second, continued=True)


def _check(expr: Expr, found: Translated) -> None:
    if found.slow:
        raise Refused(f"`{expr.text}` is evaluated faster by Spark")
    if expr.type is None or found.type != expr.type or to_arrow(expr.type) is None:
        raise Refused(f"only Spark knows the type of `{expr.text}`")
