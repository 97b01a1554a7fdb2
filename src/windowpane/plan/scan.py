"""Decides whether workers can read, evaluate and fold a query's input themselves: the columnar scan.

Spark's source still determines which files or messages belong to a micro-batch, so offsets and restarts are Spark's.
Workers read columns with Arrow. DuckDB computes expressions if the result is certain to be Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windowpane.config import Stream
from windowpane.core.columns import SOURCE_TIME
from windowpane.errors import PlanError, SqlError
from windowpane.evaluation.event_times import EventTimes
from windowpane.formats import CodecFormat, source_format
from windowpane.plan import physical
from windowpane.plan.evaluation import conditions_of, translate_under
from windowpane.plan.eventtime.scan_times import scan_times
from windowpane.plan.guard import blame_order, guard_of, in_words
from windowpane.plan.scan_sources import Refused, scan_columns, several_topics
from windowpane.plan.stages import InputStage, StageGraph
from windowpane.sql import SessionFacts, translate_expression
from windowpane.sql.query import Column, Expr
from windowpane.sql.types import to_arrow


@dataclass(frozen=True)
class Computed:
    """A column that DuckDB computes from the columns that are read, and its type in Spark."""

    name: str
    text: str
    type: str
    fails: bool = False
    """It fails for some values. Those rows become error rows."""
    guard: str | None = None
    """DuckDB's SQL for the reason why it fails on a row."""
    words: str = ""
    """The expression, for people."""


@dataclass(frozen=True)
class ColumnarScan:
    """What workers read, and how they compute the columns of the input projection from it."""

    stream: str
    format: str
    codec: CodecFormat | None
    """How values of messages, or lines of files, are decoded."""
    decoding_options: Mapping[str, str]
    columns: tuple[Column, ...]
    """Columns of the files, or of the values of messages."""
    times: EventTimes | None
    """None in processing time."""
    plain: tuple[tuple[str, str], ...]
    """Columns of the projection that are columns of the source, with their names there."""
    computed: tuple[Computed, ...]
    """In the order in which failures are reported: the first one that fails gives the reason."""
    where: str | None
    """The column of the projection that has the value of WHERE."""
    original: bool
    """Side outputs keep original events."""
    own: tuple[Column, ...]
    """Further columns of messages that the query uses."""
    several_topics: bool
    max_record_bytes: int
    session: SessionFacts
    """Settings of the session that the computed columns depend on."""

    @property
    def stamped(self) -> bool:
        """Whether event times fall back to the time at which the source recorded a row."""
        return self.times is not None and any(each.column == SOURCE_TIME for each in self.times.columns)

    def holds_in(self, session: SessionFacts) -> bool:
        """Whether the computed values are Spark's in this session, whose settings may differ from those of the plan."""
        return not self.computed or ((session.utc or not self.session.utc) and (session.ansi or not self.session.ansi))

    def describe(self) -> str:
        if source_format(self.format).is_messages:
            return f"{self.stream} is read by Spark, and its values by the columnar scan: workers decode them"
        return f"{self.stream} is read by the columnar scan: no raw row enters the JVM"


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
        scan = _chosen(stage, streams, session or SessionFacts(), folds=stages.window.folds)
    except Refused as refused:
        _refuse_if_required(asked, str(refused))
        return None, tuple(f"{name} is read by Spark, not by the columnar scan: {refused}" for name in asked)
    return scan, (scan.describe(),)


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
    timed = stage.source if isinstance(stage.source, physical.PhysicalEventTime) else None
    source = timed.child if timed is not None else stage.source
    if not isinstance(source, physical.PhysicalDataSource):
        raise Refused("FROM has another table or stream")
    stream = streams[source.stream]
    columns = scan_columns(stream, source.columns)
    if stage.original and not folds:
        raise Refused("a side output keeps original events, and rows are not aggregated where they are read")
    types = columns.types
    plain = tuple((each.name, _name(each.expr)) for each in stage.columns if _name(each.expr) in types)
    conditions = conditions_of(stage.columns)
    computed = {
        each.name: _computed(each.name, each.expr, conditions[each.name], types, session)
        for each in stage.columns
        if _name(each.expr) not in types
    }
    return ColumnarScan(
        stream=source.stream,
        format=stream.source_format.name,
        codec=stream.codec,
        decoding_options=stream.decoding_options,
        columns=columns.read,
        times=scan_times(timed.steps, types) if timed else None,
        plain=plain,
        computed=tuple(computed[name] for name in blame_order(stage.columns) if name in computed),
        where=stage.where,
        original=stage.original,
        own=columns.own,
        several_topics=stream.source_format.is_messages and several_topics(stream),
        max_record_bytes=stream.max_record_bytes,
        session=session,
    )


def _name(expr: Expr) -> str:
    """The column that an expression is, where it is one."""
    return expr.text.strip("`")


def _computed(
    name: str, expr: Expr, conditions: Sequence[str], types: Mapping[str, str], session: SessionFacts
) -> Computed:
    if expr.type is None or to_arrow(expr.type) is None:
        raise Refused(f"only Spark knows the type of `{expr.text}`")
    try:
        found = translate_under(expr.text, conditions, dict(types), session)
    except SqlError as unsure:
        raise Refused(unsure.message) from unsure
    if found.slow:
        raise Refused(f"`{expr.text}` is evaluated faster by Spark")
    if found.type != expr.type:
        raise Refused(f"only Spark knows the type of `{expr.text}`")
    guard = guard_of(expr, dict(types)) if found.fails else None
    reason = None if guard is None else _text(guard, types, session)
    return Computed(name, found.text, type=found.type, fails=found.fails, guard=reason, words=in_words(expr.text))


def _text(text: str, types: Mapping[str, str], session: SessionFacts) -> str:
    try:
        return translate_expression(text, dict(types), session).text
    except SqlError as unsure:
        raise Refused(unsure.message) from unsure
