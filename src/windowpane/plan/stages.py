"""The stages of a planned query, with everything that hosts and operators need as fields.

`staging.py` makes them from the physical plan. EXPLAIN prints the plan's nodes; everything else reads the stages.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

from windowpane.core import columns as c
from windowpane.core.joining import JoinPlan
from windowpane.core.side import Key
from windowpane.core.windows.cut import Cut
from windowpane.errors import InternalError
from windowpane.evaluation.result_rows import ResultRows
from windowpane.plan.eventtime.timing import LateRule, TimeMode
from windowpane.plan.node import PlanNode
from windowpane.plan.node_fields import Aggregation, ColumnUse, InputColumn, SideRoute, WindowPlan
from windowpane.plan.physical import Deadlines
from windowpane.plan.placement import Layout, Placement
from windowpane.sql import SessionFacts
from windowpane.sql.query import Output, Relation
from windowpane.sql.result_steps import ResultStep, Segment, segments


@dataclass(frozen=True)
class Stage:
    """A step of a query. `inputs` are the names of the stages it takes rows from.

    `account`: stages with the same name here prove together that no row was lost. Empty for the main query.
    """

    name: str
    inputs: tuple[str, ...]
    account: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class InputStage(Stage):
    """Rows of FROM as operators take them. The host computes them, in Spark, in the columnar scan or in DuckDB."""

    relation: Relation
    source: PlanNode
    """Streams, static joins and unions, as a tree of physical nodes that the host evaluates from the leaves up."""
    streams: tuple[str, ...]
    is_union: bool
    """Rows come from several branches, so each row names the source partition it comes from."""
    columns: tuple[InputColumn, ...]
    """The input projection: the columns that cross into the operators, with the time of each row."""
    where: str | None
    """The column of the projection that holds WHERE."""
    original: bool
    """Side outputs need the whole source row."""
    aliases: tuple[tuple[str, str], ...]
    """Columns that operators read, each with the column of the projection that it is."""
    timed: bool
    """Rows have an event time. Otherwise they have the time of their micro-batch."""
    time_sources: tuple[str, ...]
    """Where rows may get their time from. If it is only one, all rows get it from there."""
    clock_fallback: bool
    """A row's time is in one place, and a row without it has the time of its micro-batch."""


@dataclass(frozen=True)
class TimeStage(Stage):
    """The watermark of the rows of an input."""

    keys: tuple[Key, ...]
    """The keys of the query's groups, for side rows."""
    streams: tuple[str, ...]
    """Streams without whose rows the watermark does not move; empty if there is only one. One that several branches
    read is there once for each of them.
    """
    mode: TimeMode
    ordered: bool
    """Rows are released by (event time, arrival)."""
    deadlines: Deadlines | None
    ticks_for: tuple[str, ...]
    """What needs processing time to go on when no row comes. If it is empty, an idle query is idle."""
    late_rule: LateRule
    lag_us: int = 0
    max_future_skew_us: int | None = None
    idle_timeout_us: int | None = None
    cut: Cut | None = None
    """Of a version of a query: it takes the rows within."""


@dataclass(frozen=True, kw_only=True)
class LeafStage(TimeStage):
    """Rows of one input that one of several queries over it takes, and their watermark."""

    number: int
    numbers: tuple[int, ...] = ()
    """The streams whose rows it takes, by their numbers in the column STREAM."""
    columns: tuple[tuple[str, str], ...]
    """Columns of the query, each with its name in the input."""
    placement: Placement = field(default_factory=Placement)
    """Where rows go first."""


@dataclass(frozen=True)
class MeetingStage(Stage):
    """Rows of both sides of a join, or of branches of a UNION ALL, of which one is not a stream: they come from other
    stages.
    """

    placement: Placement | None
    """Where the results of a side go; None if they stay where all rows are."""
    ordered: bool | None = None
    """Of the last one of a UNION ALL: whether rows are released by (event time, arrival)."""


@dataclass(frozen=True)
class ChainStage(Stage):
    """The results of a window as rows of the next one, and their watermark."""

    keys: tuple[Key, ...]
    """As of TimeStage."""
    rows: ResultRows
    """Computes the rows, in the worker that has the results."""
    behind_us: int
    """How far the watermark is behind that of the window below."""
    ordered: bool
    """As of TimeStage."""
    late_rule: LateRule
    ticks_for: tuple[str, ...]
    """As of TimeStage."""
    same: tuple[tuple[str, str], ...]
    """Columns of the rows that are keys of the window below, each with the name of that key."""
    session: SessionFacts
    """Settings of the session that the computed columns depend on."""
    placement: Placement | None = None
    """Where rows go, if they do not stay on the shard of the results."""

    def holds_in(self, session: SessionFacts) -> bool:
        """Whether the computed values are Spark's in this session, whose settings may differ from those of the plan."""
        return self.session.hold_in(session) or not self.rows.computes


@dataclass(frozen=True)
class SideStage(ChainStage):
    """The results of a query as rows of one side of a join."""


@dataclass(frozen=True)
class DedupeStage(Stage):
    """Takes out rows whose values of `compared` were seen within the horizon."""

    keys: tuple[Key, ...]
    """As of TimeStage."""
    compared: tuple[ColumnUse, ...]
    within_us: int
    slack_us: int
    """How far behind the watermark a row may be and still count."""
    of_right: bool | None = None
    """In a join of streams, the side whose rows are compared."""
    routed_by: tuple[str, ...] = ()
    """Columns in which copies agree too, and that decide on the shard."""
    placement: Placement | None = None
    """Of a stream that meets results: where its rows are compared, if that is not where they meet them."""


@dataclass(frozen=True)
class JoinStage(Stage):
    """Joins the rows of two streams, within windows or within `interval_us`."""

    window: WindowPlan | None
    interval_us: tuple[int, int] | None
    plan: JoinPlan
    session: SessionFacts
    """Settings of the session that columns over both sides depend on."""
    cut: Cut | None = None
    """Of a version of a query whose results are joined rows, or aggregates of them: which windows or times it has."""

    def holds_in(self, session: SessionFacts) -> bool:
        """Whether workers compute these columns as Spark does in this session."""
        return self.session.hold_in(session) or (self.plan.on is None and self.plan.after is None)


@dataclass(frozen=True)
class WindowStage(Stage):
    """Rows to windows, and to the results of their groups. Without a window, each released row is a result."""

    keys: tuple[Key, ...]
    window: WindowPlan | None
    aggregation: Aggregation | None
    fused: bool
    """Rows are folded into accumulators as they come."""
    per_window: bool
    """Overlapping windows have a state each, instead of sharing panes."""
    admits: bool
    """Which rows count depends on rows before them, because of a quota or dedupe."""
    layout: Layout
    """Where dedupe, quota and window run."""
    together: Layout
    """The same with one shuffle, for a single shard and for checkpoints that were made so."""

    @property
    def folds(self) -> bool:
        """Rows can become partial accumulators before they meet the rows of other tasks."""
        return self.fused and not self.admits


@dataclass(frozen=True)
class ResultStage(Stage):
    """The results of a window: the steps over them (HAVING, order, limit) and the columns of SELECT."""

    steps: tuple[ResultStep, ...]
    outputs: tuple[Output, ...]
    grouped: bool
    keys: tuple[Key, ...]
    ordered_keys: tuple[str, ...]
    """The keys whose values have an order: maps have none."""
    key_texts: tuple[str, ...]
    """The canonical expression of each key: names the group, however the query is laid out."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The steps and the outputs, as hosts compute them."""
        return segments(self.steps, self.outputs)

    def window_columns(self, emitted: Collection[str]) -> list[str]:
        """Columns of the emissions that tell windows apart. Each row of a stream triggers a sliding window of its own,
        so the epoch counts those of equal time.
        """
        names = [c.WINDOW_START, c.WINDOW_END, c.TRIGGER, c.WINDOW_SALT]
        names += [c.EPOCH] if c.TRIGGER in emitted and self.grouped else []
        return [name for name in names if name in emitted]

    def order_by_keys(self, emitted: Collection[str]) -> list[str]:
        """Columns of the emissions that tell the rows of a window apart, and order those that are otherwise alike."""
        names = self.ordered_keys if self.grouped else (c.EVENT_TIME, c.ARRIVAL)
        return [name for name in names if name in emitted]


@dataclass(frozen=True)
class OutputStage(Stage):
    """Where results and side rows go."""

    sinks: tuple[str, ...]
    routes: tuple[SideRoute, ...]

    @property
    def reinjects(self) -> bool:
        """Whether side rows of some kind are read again."""
        return any(route.target == "reinject" for route in self.routes)


AnyStage: TypeAlias = (
    InputStage
    | TimeStage
    | ChainStage
    | MeetingStage
    | DedupeStage
    | JoinStage
    | WindowStage
    | ResultStage
    | OutputStage
)
Kind = TypeVar("Kind", bound=Stage)
_COMPARED = "results by window to compare them"


@dataclass(frozen=True)
class StageGraph:
    """Stages in an order in which each follows those it takes rows from."""

    stages: tuple[AnyStage, ...]

    def __post_init__(self) -> None:
        names: set[str] = set()
        for stage in self.stages:
            if stage.name in names or not names.issuperset(stage.inputs):
                raise InternalError("STAGES", f"stage {stage.name} of {stage.inputs} does not follow {sorted(names)}")
            names.add(stage.name)

    @cached_property
    def by_name(self) -> dict[str, AnyStage]:
        return {stage.name: stage for stage in self.stages}

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """All stages of a kind."""
        return tuple(stage for stage in self.stages if isinstance(stage, kind))

    def only(self, kind: type[Kind]) -> Kind:
        """The stage of a kind, for hosts that run one query over one input; InternalError if there are several."""
        found = self.of(kind)
        if len(found) != 1:
            raise InternalError("STAGES", f"{len(found)} stages are {kind.__name__}, and this host runs one")
        return found[0]

    @property
    def input(self) -> InputStage:
        return self.only(InputStage)

    @property
    def windows(self) -> tuple[WindowStage, ...]:
        """All windows, from the one over the source to the one that gives the results."""
        return self.of(WindowStage)

    @property
    def first_window(self) -> WindowStage:
        """The window over the rows of the source."""
        return self.windows[0]

    @property
    def window(self) -> WindowStage:
        """The window that gives the results."""
        return self.windows[-1]

    @property
    def result(self) -> ResultStage:
        return self.only(ResultStage)

    @property
    def output(self) -> OutputStage:
        return self.only(OutputStage)

    @property
    def has_identity(self) -> bool:
        """Whether window and group identify a result, so that one can replace another."""
        return self.window.window is not None and self.result.grouped

    @property
    def is_spread(self) -> bool:
        """Rows are shuffled more than once."""
        moved = any(stage.placement is not None for stage in self.of(ChainStage))
        moved |= any(stage.placement is not None for stage in self.of(MeetingStage))
        return moved or any(stage.layout.is_spread for stage in self.of(WindowStage))

    def describe_layout(self) -> str:
        """For EXPLAIN: one shuffle, or all of them in the order in which rows pass them."""
        if self.of(LeafStage):
            return self._describe_leaves()
        moved = {stage.name: stage.placement for stage in self.of(ChainStage)}
        later = list[str]()
        for stage in self.windows[1:]:
            placement = moved.get(stage.inputs[0])
            later += [f"{placement.describe()} for the window above"] if placement is not None else []
            later += stage.layout.describe_quota() if stage.layout.quota else []
        later = [*([_COMPARED] if any(each.rows.compares for each in self.of(ChainStage)) else []), *later]
        return ", then ".join([self.first_window.layout.describe(), *later])

    def _describe_leaves(self) -> str:
        """The shuffles of queries that read each other's results in joins."""
        read = [f"{stage.placement.describe()} for {stage.account}" for stage in self.of(LeafStage)]
        later: list[ChainStage | MeetingStage] = [*self.of(ChainStage), *self.of(MeetingStage)]
        later.sort(key=self.stages.index)
        moved = [_COMPARED] if any(each.rows.compares for each in self.of(ChainStage)) else []
        moved += [f"{each.placement.describe()} for {each.account}" for each in later if each.placement is not None]
        moved += [f"{each.layout.window.describe()} for the groups of {each.account}" for each in self.windows
                  if each.layout.join is not None and not each.layout.quota]  # fmt: skip
        moved += [text for each in self.windows if each.layout.quota for text in each.layout.describe_quota()]
        return ", then ".join([" and ".join(dict.fromkeys(read)), *dict.fromkeys(moved)])

    def in_one_shuffle(self) -> StageGraph:
        """The same stages with all state behind one shuffle."""
        changed: dict[str, AnyStage] = {each.name: replace(each, layout=each.together) for each in self.windows}
        changed |= {each.name: replace(each, placement=None) for each in self.of(ChainStage)}
        changed |= {each.name: replace(each, placement=None) for each in self.of(MeetingStage)}
        changed |= {each.name: replace(each, placement=Placement()) for each in self.of(LeafStage)}
        return StageGraph(tuple(changed.get(each.name, each) for each in self.stages))

    @property
    def ticks_for(self) -> tuple[str, ...]:
        """What needs processing time to go on when no row comes, in any stage."""
        timed = [stage.ticks_for for stage in self.stages if isinstance(stage, (TimeStage, ChainStage))]
        return tuple(dict.fromkeys(what for ticks_for in timed for what in ticks_for))
