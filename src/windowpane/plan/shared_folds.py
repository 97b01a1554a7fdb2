"""Which transforms of a job fold their rows once: into panes that the windows of all of them are made of.

They must agree on which rows there are, and on the groups: event time, WHERE, keys, and expressions that can fail.
Windows, aggregates, lag and lateness may differ. Only work before the first shuffle is shared, so a job's state does
not depend on it, and transforms may come and go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from windowpane.core.accumulators import resolve
from windowpane.core.aggregation import Call
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.side import Key
from windowpane.core.windows import Cumulate, Hopping, Tumbling
from windowpane.evaluation.projection import Projection
from windowpane.plan.build import Plan
from windowpane.plan.node_fields import PhysicalCall
from windowpane.plan.scan import judges_columns
from windowpane.plan.stages import LeafStage, TimeStage, WindowStage
from windowpane.time import format_duration

MOST_PANES = 16
"""Into how many shared panes the smallest pane of a window may be cut. With more, each pane has few rows to fold."""
_COLUMN, _CALL = "_c", "_f"
"""What the names of shared columns and calls begin with."""


@dataclass(frozen=True)
class FoldMember:
    """A transform that takes part in a shared fold."""

    keys: tuple[Key, ...]
    """Its keys, by the names of the shared columns."""
    columns: Mapping[str, str]
    """Its keys, each with the shared column that it is."""
    calls: Mapping[str, str]
    """Its aggregates, each with the shared call that it is."""


@dataclass(frozen=True)
class SharedFold:
    """What several transforms fold together, with names of its own for columns and calls."""

    members: Mapping[str, FoldMember]
    """By tag."""
    pane_us: int
    offset_us: int
    projection: Projection
    calls: tuple[Call, ...]
    max_future_skew_us: int | None

    @property
    def name(self) -> str:
        return "+".join(self.members)

    @property
    def keys(self) -> tuple[Key, ...]:
        return next(iter(self.members.values())).keys

    def describe(self, tag: str) -> str:
        """For EXPLAIN, from the view of one transform."""
        others = ", ".join(f"`{other}`" for other in self.members if other != tag)
        return f"rows are folded once, with {others}, into panes of {format_duration(self.pane_us)}"


@dataclass(frozen=True)
class FoldSharing:
    """The shared folds of a job, and by tag why a transform folds its rows by itself."""

    folds: tuple[SharedFold, ...]
    reasons: Mapping[str, str]

    def describe(self, tag: str) -> str:
        """For EXPLAIN."""
        shared = next((fold for fold in self.folds if tag in fold.members), None)
        return shared.describe(tag) if shared else f"rows are folded for this transform alone: {self.reasons[tag]}"


def share_folds(plans: Mapping[str, Plan]) -> FoldSharing:
    """`plans`: of the transforms of a job, by tag."""
    reasons, groups = dict[str, str](), list[_Candidates]()
    for tag, plan in plans.items():
        found = _candidate(plan)
        if isinstance(found, str):
            reasons[tag] = found
            continue
        joined = next((group for group in groups if group.why_not(found) is None), None)
        if joined is None:
            groups.append(joined := _Candidates())
        joined.members[tag] = found
    for group in groups:
        if len(group.members) == 1:
            ((tag, alone),) = group.members.items()
            others = [each for each in groups if each is not group]
            reasons[tag] = _why_alone(alone, others)
    return FoldSharing(tuple(group.shared() for group in groups if len(group.members) > 1), reasons)


def _why_alone(candidate: _Candidate, others: Sequence[_Candidates]) -> str:
    """What it has in common with no other transform, by those from which it differs least."""
    found = [(group.differences(candidate), group) for group in others]
    if not found:
        return "no other transform of the job can share it"
    differences, closest = min(found, key=lambda pair: len(pair[0]))
    other = next(iter(closest.members))
    return f"it differs from `{other}` in {' and '.join(differences)}"


@dataclass(frozen=True)
class _Candidate:
    """A transform whose rows can be folded into shared panes."""

    plan: Plan
    window: WindowStage
    projection: Projection
    pane_us: int
    offset_us: int

    def definition(self, name: str) -> object:
        """What a column that operators read is."""
        return self.projection.definitions()[dict(self.plan.stages.input.aliases).get(name, name)]

    def aspects(self) -> dict[str, object]:
        """What members must agree on, as EXPLAIN calls it."""
        stage, (time,) = self.plan.stages.input, self.plan.stages.of(TimeStage)
        where = self.projection.where
        fails = tuple(each for _, each in self.projection.computed if each.fails)
        assert self.plan.scan is not None, "candidates are scanned"
        (scan,) = self.plan.scan.streams
        columns = {column.name for column in scan.columns}
        return {
            "event time": (
                self.projection.times, stage.time_sources, stage.clock_fallback, stage.timed, time.max_future_skew_us
            ),
            "WHERE": None if where is None else self.definition(where),
            "keys": tuple((self.definition(key.name), key.label) for key in self.window.keys),
            "expressions that can fail": fails,
            "original events": stage.original,
            # An original event has the columns that are read, and a record of an untyped file is bad because of them.
            "columns read": columns if stage.original or judges_columns(scan) else None,
        }  # fmt: skip


@dataclass
class _Candidates:
    """Transforms that share a fold."""

    members: dict[str, _Candidate] = field(default_factory=dict)

    def why_not(self, candidate: _Candidate) -> str | None:
        return " and ".join(self.differences(candidate)) or None

    def differences(self, candidate: _Candidate) -> list[str]:
        """Why a transform cannot be one of them."""
        known, own = next(iter(self.members.values())).aspects(), candidate.aspects()
        found = [name for name, value in own.items() if known[name] != value]
        if found or self._panes([*self.members.values(), candidate]) is not None:
            return found
        return ["windows, whose common panes would be too short"]

    def _panes(self, members: Sequence[_Candidate]) -> int | None:
        """The width of shared panes; None if too many of them would be needed."""
        first = members[0].offset_us
        width = math.gcd(*(each.pane_us for each in members), *(each.offset_us - first for each in members))
        return width if min(each.pane_us for each in members) <= width * MOST_PANES else None

    def shared(self) -> SharedFold:
        members, first = list(self.members.values()), next(iter(self.members.values()))
        width = self._panes(members)
        assert width is not None, "it was, for each that joined"
        columns, calls = _Names(_COLUMN), _Names(_CALL)
        projection = _projected(members, columns)
        found = {tag: _member(each, columns, calls) for tag, each in self.members.items()}
        named = tuple(replace(item.call, name=name) for item, name in calls.known.items() if isinstance(item, _Typed))
        (time,) = first.plan.stages.of(TimeStage)
        return SharedFold(found, width, first.offset_us % width, projection, named, time.max_future_skew_us)


@dataclass(frozen=True)
class _Typed:
    """A call, and the types of its parameters: 1 and TRUE are equal in Python."""

    call: Call
    types: tuple[type, ...]


@dataclass
class _Names:
    """Names for things that several transforms have, each thing once."""

    prefix: str
    known: dict[object, str] = field(default_factory=dict)

    def of(self, thing: object) -> str:
        return self.known.setdefault(thing, f"{self.prefix}{len(self.known)}")


def _projected(members: Sequence[_Candidate], names: _Names) -> Projection:
    """The columns of all members."""
    first = members[0].projection
    plain = {names.of(("column", column)): column for each in members for _, column in each.projection.plain}
    # In the order of the first one: of expressions that fail on a row, the first is to blame.
    computed = {names.of(item): item for each in members for _, item in each.projection.computed}
    constants = {
        names.of(("constant", value)): value for each in members for _, value in each.projection.constants
    }  # fmt: skip
    where = None if first.where is None else names.of(members[0].definition(first.where))
    return replace(
        first, plain=tuple(plain.items()), computed=tuple(computed.items()), constants=tuple(constants.items()),
        where=where,
    )  # fmt: skip


def _member(candidate: _Candidate, columns: _Names, calls: _Names) -> FoldMember:
    own, aggregation = candidate.window, candidate.window.aggregation
    assert aggregation is not None, "candidates aggregate"
    keys = {key.name: columns.of(candidate.definition(key.name)) for key in own.keys}
    named = {each.name: calls.of(_call(each, candidate, columns)) for each in aggregation.calls}
    return FoldMember(tuple(Key(keys[key.name], key.label) for key in own.keys), keys, named)


def _call(call: PhysicalCall, candidate: _Candidate, columns: _Names) -> _Typed:
    """An aggregate over shared columns, without its name: equal ones are folded once."""
    inputs = tuple(columns.of(candidate.definition(name)) for name in call.args)
    chosen = None if call.filter is None else columns.of(candidate.definition(call.filter))
    bare = Call("", call.function, inputs, call.params, distinct=call.distinct, filter=chosen)
    return _Typed(bare, tuple(type(each) for each in call.params))


def _candidate(plan: Plan) -> _Candidate | str:
    """A transform that can share a fold, or why it cannot."""
    stages, scan = plan.stages, plan.scan
    if scan is None or len(scan.streams) != 1 or len(scan.streams[0].projections) != 1 or stages.of(LeafStage):
        return "it reads several streams"
    window, (time,) = stages.first_window, stages.of(TimeStage)
    if window.window is None or window.aggregation is None or not window.folds:
        return "its rows are not aggregated where they are read"
    if time.mode == "processing_time":
        return "its rows have the time of their micro-batch"
    if time.late_rule == "row" or time.ordered:
        return '`late_rule` is "row"'
    spec = window.window.spec
    if type(spec) not in (Tumbling, Hopping, Cumulate):
        return f"its windows ({spec.kind}) have no panes of a fixed length"
    assert isinstance(spec, Tumbling | Hopping | Cumulate)
    aligned = AlignedPlan(spec, window.keys, max_groups=window.aggregation.max_groups, per_window=window.per_window)
    if not aligned.shared_panes or window.aggregation.max_groups is not None:
        return "it keeps a state for each window"
    cut_matters = [call.text for call in window.aggregation.calls if resolve(call.function).cut_matters]
    if cut_matters:
        return f"{cut_matters[0]} depends on how rows are cut into panes"
    pane_us = spec.windows().pane_end(spec.offset_us) - spec.offset_us
    return _Candidate(plan, window, scan.streams[0].projections[0], pane_us, spec.offset_us)
