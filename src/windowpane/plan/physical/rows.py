"""Physical nodes below the window: sources, event time, the input projection, watermark and dedupe.

Columns that cross into the operators have internal names: `_k0` keys, `_a0_0` and `_a0_f` an aggregate's argument and
FILTER, `_p0` partition keys, `_c0` carried columns, `_d0` dedupe keys, `_where`, `_when`, `_open`, `_emit` flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from windowpane.plan.describe import describe_generator, describe_limit
from windowpane.plan.eventtime.steps import TimeStep
from windowpane.plan.eventtime.timing import LateRule
from windowpane.plan.leaves import ResultsNode, SourceNode
from windowpane.plan.node import Properties, UnaryNode, UnionNode, shown
from windowpane.plan.node_fields import ColumnUse, InputColumn, labels
from windowpane.sql.query import Column, Expr, Generator, Relation, StaticJoin
from windowpane.time import format_duration

TIME_ERROR = "_ts_error"
"""Why a row has no event time (`event_time_null`, `event_time_parse`), NULL where it has one."""
Deadlines: TypeAlias = Literal["at_once", "watermark", "clock"]
"""What a sliding trigger waits for: nothing, or that watermark or clock reach the end of its lookahead."""


@dataclass(frozen=True)
class PhysicalDataSource(SourceNode):
    """A stream as Spark reads it. `columns` are those that the plan reads."""


@dataclass(frozen=True)
class PhysicalResults(ResultsNode):
    """The results of the window below as rows, computed in the worker that has them."""


@dataclass(frozen=True)
class PhysicalEventTime(UnaryNode):
    """Adds the event time and TIME_ERROR, and where rows differ in it, the source of their time: the first step that
    yields a value wins.
    """

    steps: tuple[TimeStep, ...]

    def properties(self) -> Properties:
        return shown(steps=tuple(step.describe() for step in self.steps))


@dataclass(frozen=True)
class PhysicalStaticJoin(UnaryNode):
    """Enrichment with a static table, done by Spark. `relation`: the stream with all tables that are joined to it."""

    join: StaticJoin
    relation: Relation

    def properties(self) -> Properties:
        return shown(table=self.join.table, join=self.join.text)


@dataclass(frozen=True)
class PhysicalGenerate(UnaryNode):
    """A row for each element of an array or map. MADE says which of them are not the first of their source row.

    A row without elements stays as a filtered row: it has been read.
    """

    generator: Generator
    known: tuple[Column, ...] = ()
    """The columns of FROM, as far as their types are known."""

    def properties(self) -> Properties:
        return describe_generator(self.generator)


@dataclass(frozen=True)
class PhysicalBranch(UnaryNode):
    """One SELECT of a UNION ALL: its projection, and its WHERE as a flag (a filtered row still moves the watermark)."""

    projection: tuple[tuple[str, Expr], ...]
    where: Expr | None
    error: Expr | None = None
    """As of PhysicalProject, over the stream's columns."""
    known: tuple[Column, ...] = ()
    """The stream's columns, as far as their types are known."""

    def properties(self) -> Properties:
        columns = tuple(f"{expr.text} AS {name}" for name, expr in self.projection)
        where = self.where.text if self.where else None
        return shown(columns=columns, where=where, guarded=self.error is not None)


@dataclass(frozen=True)
class PhysicalUnion(UnionNode):
    """UNION ALL: the watermark treats each branch as a separate source."""


@dataclass(frozen=True)
class PhysicalProject(UnaryNode):
    """The input projection, native Spark SQL: exactly these columns cross to Python, with the event time.

    `where` names the flag column. `error` is NULL for a row that evaluates well, else the reason of its error; the
    others must only be evaluated where it is NULL and the flag is true. `original` asks for the whole source row.
    """

    columns: tuple[InputColumn, ...]
    where: str | None
    error: Expr | None
    original: bool

    def properties(self) -> Properties:
        return {"crosses": [column.describe() for column in self.columns]} | shown(
            where=self.where, guarded=self.error is not None, original=self.original,
        )  # fmt: skip


@dataclass(frozen=True)
class PhysicalWatermark(UnaryNode):
    """What both watermarks share.

    `ordered`: rows are released by (ts, arrival), after W none with ts <= W. `deadlines`: what a sliding trigger waits
    for. `ticks_for`: what needs processing time to go on when no row comes; where it is empty, an idle query is idle.
    """

    ordered: bool
    deadlines: Deadlines | None
    ticks_for: tuple[str, ...]


@dataclass(frozen=True)
class PhysicalProcessTimeWatermark(PhysicalWatermark):
    """Driven by the micro-batch's timestamp."""

    def properties(self) -> Properties:
        return shown(mode="processing_time", ordered=self.ordered, deadlines=self.deadlines, ticks_for=self.ticks_for)


@dataclass(frozen=True)
class PhysicalEventtimeWatermark(PhysicalWatermark):
    """min over shards that are not idle(max event time) - lag. None switches skew guard and idleness off."""

    lag_us: int
    max_future_skew_us: int | None
    idle_timeout_us: int | None
    late_rule: LateRule

    def properties(self) -> Properties:
        return shown(
            mode="event_time", lag=format_duration(self.lag_us), late_rule=self.late_rule, ordered=self.ordered,
            max_future_skew=describe_limit(self.max_future_skew_us), idle_timeout=describe_limit(self.idle_timeout_us),
            deadlines=self.deadlines, ticks_for=self.ticks_for,
        )  # fmt: skip


@dataclass(frozen=True)
class PhysicalResultWatermark(PhysicalWatermark):
    """Follows the watermark of the query below, `behind_us` behind it, so that none of its results is late."""

    behind_us: int
    late_rule: LateRule

    def properties(self) -> Properties:
        return shown(
            mode="results", behind=format_duration(self.behind_us), late_rule=self.late_rule, ordered=self.ordered,
            deadlines=self.deadlines, ticks_for=self.ticks_for,
        )  # fmt: skip


@dataclass(frozen=True)
class PhysicalDedupe(UnaryNode):
    """A row whose key was seen within the horizon leaves as `duplicate`."""

    keys: tuple[ColumnUse, ...]
    within_us: int
    sides: tuple[tuple[str, ...], ...] = ()
    """In a join of streams, the columns by which rows of the left and of the right side are compared; none if a side
    does not have them.
    """

    def properties(self) -> Properties:
        return shown(keys=labels(self.keys), within=format_duration(self.within_us))
