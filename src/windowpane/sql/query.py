"""The bound query: what `sql` hands to `plan`. Plain frozen values; expressions are canonical Spark SQL text.

Nothing outside `sql` sees a syntax tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from windowpane.core.windows import WindowSpec
from windowpane.errors import Span

if TYPE_CHECKING:
    from windowpane.sql.result_steps import ResultStep


@dataclass(frozen=True)
class Expr:
    """A scalar expression. `text` is canonical Spark SQL over `columns`, whose names are bare (no qualifier)."""

    text: str
    type: str | None = None
    """Spark's name of its type (`BIGINT`, `DECIMAL(10,2)`, `ARRAY<STRING>`), None where only Spark can tell."""
    columns: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    hidden: bool = field(default=False, repr=False)
    """`*` does not include it."""


@dataclass(frozen=True)
class StreamRef:
    """A stream in FROM. `alias` is the name the query knows it by."""

    name: str
    alias: str
    columns: tuple[Column, ...]
    open: bool = False
    """Only Spark knows its columns: `columns` is empty, and names were not checked."""


@dataclass(frozen=True)
class StaticJoin:
    """A join of the stream with a static table: `text` is the join clause in canonical Spark SQL."""

    table: str
    alias: str
    columns: tuple[Column, ...]
    text: str
    using_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generator:
    """LATERAL VIEW, UNNEST: a row for each element of an array, or for each entry of a map.

    `columns` are what the query can name. `fields`: they are the fields of elements that are structs. `position`: the
    column that numbers the elements, and the first number. `outer`: a row without elements stays, with NULL in
    `columns`. `text` is the clause in canonical SQL.
    """

    argument: Expr
    columns: tuple[Column, ...]
    text: str
    fields: bool = False
    position: tuple[str, int] | None = None
    outer: bool = False

    @property
    def values(self) -> tuple[Column, ...]:
        """The columns without the position."""
        return tuple(column for column in self.columns if not self.position or column.name != self.position[0])

    @property
    def of_entries(self) -> bool:
        """The argument is a map. Where only Spark knows its type, two columns without position say so."""
        kind = self.argument.type
        return kind.startswith("MAP<") if kind is not None else len(self.values) == 2 and not self.fields


@dataclass(frozen=True)
class UnionBranch:
    """One SELECT of a UNION ALL subquery: its stream, WHERE, and projection to the union's columns."""

    stream: StreamRef
    projection: tuple[tuple[str, Expr], ...]
    where: Expr | None = None
    joined: Relation | None = None
    """The stream with the static tables that the branch joins to it; `projection` and `where` are over its columns."""
    query: BoundQuery | None = None
    """The query whose results are the rows, instead of those of `stream`, which is one that it reads."""
    time: tuple[Expr, str] | None = None
    """Of such results: what their time is in the join, if it is not that of the results, and its event-time type. The
    planner takes it from ON."""


JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class StreamJoin:
    """A join of two streams, which are the branches of the relation: rows of both under one another, then paired.
    Instead of a stream, a branch can have the results of a query.

    Each branch has the columns of both sides, those of the other one as NULL, and the columns RIGHT and `keys`.
    Expressions are over the relation's columns.
    """

    kind: JoinKind
    keys: tuple[str, ...]
    """Columns of the relation that have equal values in partners. NULL equals nothing."""
    equalities: tuple[tuple[Expr, Expr], ...]
    """What the keys are on the left and on the right side."""
    labels: tuple[str, ...]
    """The equalities as the user has written them."""
    conditions: tuple[Expr, ...]
    """What ON asks for beside the equalities."""
    left: tuple[str, ...]
    right: tuple[str, ...]
    """Columns of each side. Those of USING are in neither, because both sides have them."""
    text: str
    """The join clause in canonical Spark SQL."""
    interval_us: tuple[int, int] | None = None
    """Of a join without a window: right time less left time is in this range. The planner takes it from ON."""
    once: tuple[bool, bool] = (False, False)
    """Sides whose rows were joined within the same window before. They belong to that window alone, even if others
    overlap it."""
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Relation:
    """FROM: one stream, a UNION ALL of streams or a join of two, with static joins. `columns`: what the query can name.

    `renamed` lists (name, alias, column) for columns whose bare `name` differs from their own: two sides of a join
    share a name, or the columns of one side are known to Spark only. All other columns keep their names.
    """

    streams: tuple[StreamRef, ...]
    columns: tuple[Column, ...]
    joins: tuple[StaticJoin | Generator, ...] = ()
    """In the order in which they are applied."""
    branches: tuple[UnionBranch, ...] = ()
    alias: str = ""
    renamed: tuple[tuple[str, str, str], ...] = ()
    stream_join: StreamJoin | None = None
    query: BoundQuery | None = None
    """The windowed query whose results are the rows; `streams` are those that it reads."""

    @property
    def joins_results(self) -> bool:
        """Whether it joins or unites the results of queries, or joins a stream with itself: rows of the input part, and
        meet again.
        """
        names = [branch.stream.name for branch in self.branches]
        twice = self.stream_join is not None and len(set(names)) < len(names)
        return twice or any(branch.query for branch in self.branches)

    @property
    def queries(self) -> tuple[BoundQuery, ...]:
        """The queries whose results it reads."""
        joined = tuple(branch.query for branch in self.branches if branch.query is not None)
        return joined if self.query is None else (self.query,)

    @property
    def tables(self) -> tuple[StaticJoin, ...]:
        """The joins with static tables."""
        inner = [table for branch in self.branches if branch.joined for table in branch.joined.tables]
        inner += [table for branch in self.branches if branch.query for table in branch.query.source.relation.tables]
        return (*inner, *(join for join in self.joins if isinstance(join, StaticJoin)))

    @property
    def generators(self) -> tuple[Generator, ...]:
        """What makes several rows of one."""
        return tuple(join for join in self.joins if isinstance(join, Generator))


@dataclass(frozen=True)
class Window:
    """The query's window with its expressions."""

    spec: WindowSpec
    on: Expr | None = None
    """`WINDOW … ON <expr>` or the time argument of window(ts, …), TUMBLE(ts, …): authoritative event time."""
    partition_by: tuple[Expr, ...] = ()
    when: Expr | None = None
    open: Expr | None = None
    emit: Expr | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GroupKey:
    """A GROUP BY expression that is not the window. `name` is internal (`_k0`), `label` what the user calls it."""

    name: str
    label: str
    expr: Expr


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of the query. `name` is internal (`_a0`), `function` a name of the aggregate registry."""

    name: str
    function: str
    args: tuple[Expr, ...]
    """Column arguments; empty for count(*)."""
    params: tuple[object, ...] = ()
    """Literal arguments (percentile's fraction)."""
    distinct: bool = False
    filter: Expr | None = None
    type: str | None = None

    def describe(self) -> str:
        """As in SQL: `sum(DISTINCT a) FILTER (WHERE b > 1)`."""
        args = ", ".join([arg.text for arg in self.args] + [repr(param) for param in self.params]) or "*"
        text = f"{self.function}({'DISTINCT ' if self.distinct else ''}{args})"
        return f"{text} FILTER (WHERE {self.filter.text})" if self.filter else text


@dataclass(frozen=True)
class Output:
    """A column of the result: `expr` over internal names (`_k0`, `_a0`, `_c0`) and pseudo-columns."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class OrderKey:
    expr: Expr
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Watermark:
    """`WATERMARK (LAG …[, ALLOWED LATENESS …])`."""

    lag_us: int | None
    allowed_lateness_us: int | None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Emit:
    """`EMIT ON WINDOW CLOSE` (close), `EMIT ON UPDATE` (update), `EMIT EVERY …` (every)."""

    mode: Literal["close", "update", "every"] = "close"
    every_us: int | None = None
    span: Span | None = field(default=None, compare=False)


QueryKind: TypeAlias = Literal["aggregate", "rows", "plain"]
"""aggregate: groups of a window. rows: the window's rows. plain: no window, rows in event-time order."""

PSEUDO_COLUMNS = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "window_time": "TIMESTAMP",
    "window_id": "STRING",
    "trigger_time": "TIMESTAMP",
    "emit_epoch": "BIGINT",
    "is_final": "BOOLEAN",
}


@dataclass(frozen=True)
class BoundQuery:
    """A checked query. Names of all columns and streams are known, every clause has found its place here."""

    text: str
    canonical: str
    """Formatting and comments removed: equal for equal queries."""
    plan_id: str
    """16 hex digits of a hash of `canonical`."""
    kind: QueryKind
    relation: Relation
    outputs: tuple[Output, ...]
    where: Expr | None = None
    window: Window | None = None
    keys: tuple[GroupKey, ...] = ()
    aggregates: tuple[AggregateCall, ...] = ()
    carried: tuple[GroupKey, ...] = ()
    """Source columns a rows or plain query keeps for its outputs (`_c0`, …)."""
    steps: tuple[ResultStep, ...] = ()
    """What becomes of a window's results before SELECT: HAVING, ORDER BY and LIMIT, in order."""
    watermark: Watermark | None = None
    emit: Emit = Emit()
    owners: tuple[str, ...] = field(default=("",), compare=False)
    """The transforms whose texts say which rows it reads. Those read by name have one, the query itself none."""
    transforms: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Of the whole query: the transforms, and the streams and tables, that its own text reads."""

    @property
    def source(self) -> BoundQuery:
        """The query over streams: this one, or the one at the end of the queries that it reads."""
        return self if self.relation.query is None else self.relation.query.source
